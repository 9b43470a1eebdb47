// Package wasm runs small untrusted modules inside the host process: policies and
// language tables. It is the host side of WASM ABI v1, which sdk/guest/abi
// describes, on wazero.
//
// [Load] verifies and compiles a module once and prepares a fixed number of
// instances; [Module.Call] borrows one, and blocks no longer than the module's
// limits allow. What a module may use is decided before any of its code runs: it
// imports only host functions that its manifest was granted, plus WASI where the
// manifest asks for it, and in that WASI there are no files, no arguments, no
// environment and no standard streams. Nothing else is ever instantiated, and
// each module has a wazero runtime of its own, so that modules cannot see each
// other.
//
// Modules are metered: package meter rewrites them so that they count what they
// execute, and a call ends when its fuel is spent or its time is over, whatever it
// does. See [Limits] for both, and [Spec] for modules that cannot be metered.
//
// An instance that traps, overruns its time, fuel or memory, or replies with a pointer
// that leads nowhere is discarded, and a goroutine the Module owns makes a new
// one. What a failed call costs is that call.
//
// # Cancellation
//
// A caller's context governs how long a call waits for an instance and nothing
// else. Once guest code runs it is bounded by the module's own time limit, which
// is the operator's and small, so a client that disconnects does not destroy an
// instance that others would have used; Call then returns at most that limit
// later. The reasons tell the ends apart: ReasonCanceled when the caller gave up,
// ReasonBusy when no instance came free in time, ReasonTimeout or ReasonFuel when
// guest code was stopped.
//
// It is not a sandbox for users' programs: those run in a backend, in a process of
// their own.
package wasm
