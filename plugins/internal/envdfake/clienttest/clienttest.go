// Package clienttest drives the provider's own client, as npm has it, against the
// fakes: what that client is content with is good enough to test adapters with. It has
// no code of its own.
package clienttest
