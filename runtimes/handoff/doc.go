// Package handoff replaces something that serves calls while it serves them: a
// plugin process, a WebAssembly module, a chain of policies.
//
// A [Slot] holds the generation in service. A call borrows it and gives it back;
// a swap puts the next generation in its place between two calls, keeps the old
// one ready for as long as the new one is watched, and ends it when its last
// call is over. No call ever finds the slot empty, and none is served by a
// generation that was ended.
package handoff
