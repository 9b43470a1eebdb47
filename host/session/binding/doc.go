// Package binding keeps which sandbox a session has, and who may change that.
//
// A binding is a cache of what the provider's listing says, together with the
// agreement between replicas: a lifecycle lock, turns, background work and the
// rewind lock of a session. Everything but the traffic token can be found again
// from the provider's metadata, so losing a store costs tokens and time and
// never a sandbox.
//
// [Store] is what callers use. What differs between one process and many is an
// [Engine], a set of atomic steps: package memory for one process, sqlite for one
// process whose bindings outlive it, redis for replicas. All pass the suite of
// package bindingtest.
//
// # Failing closed
//
// Every call is bounded by [Options.OpTimeout], whatever its context allows, and
// a store that cannot answer is [ErrUnavailable] with a hint when to try again. It
// is never an empty answer: a caller that cannot learn whether a session is bound
// must not create a sandbox for it.
//
// # Leases
//
// Locks, turns and work end by themselves when whoever holds them dies. Leases are
// measured by the engine's clock; a holder counts with its own monotonic clock from
// before it asked, and gives up early. Writes under a lifecycle lock carry its fence:
// one that comes after the lock went to somebody else, or after the lease ended,
// changes nothing and is [ErrOwnershipLost].
package binding
