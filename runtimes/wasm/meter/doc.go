// Package meter rewrites WebAssembly modules so that what they execute can be
// counted, paid for and interrupted, on a runtime that offers none of it.
//
// [Rewrite] takes a core module and returns one that computes the same, and that
// counts down an exported global as it runs. When the counter is below zero it
// calls a function of the host, the slice callback, which may yield to the Go
// scheduler, look at a deadline, grant more fuel, or end the guest by a panic.
// [Account] does the arithmetic. The same pass does what snapshots and old
// interpreters need: it drops data segments, adds exports, bounds memory and
// translates wasi_unstable.
//
// The package neither compiles nor runs anything, and holds no types of a runtime.
// What it reads is hostile: it allocates in proportion to the bytes there are,
// never to what they announce, and refuses by name what it does not know. That
// protects what reads the result, too: wazero allocates for a count before it looks
// for what is counted.
//
// # What a unit is
//
// An instruction costs one unit; those that only give structure (block, loop, else,
// end, nop) cost none. Where two ways part, what both lead to is charged ahead, and
// small conditional pieces may be charged with what precedes them, which at most
// doubles it. So, but for code that a trap prevents, fuel is at least the number of
// instructions executed and at most twice that.
//
// A bulk instruction costs 16 units for each MiB that it begins and one for each
// word of eight bytes. Growing costs 256 units and, if it succeeds, 8192 for a page
// of memory and one for an element of a table. What the host does is not charged.
//
// Fuel depends on the module and what it is given, and on nothing else: neither on
// the machine nor on the size of slices.
//
// # How long a guest runs between two calls of the host
//
// Control looks at the counter at loop headers and function entries, before long
// straight pieces of code, and where a function is left that has gone on after a
// call; only functions that cost next to nothing with all they call do not look. A
// bulk instruction over more than a MiB calls the host ahead of each, whatever the
// counter says. So a slice is overdrawn by at most the code of one function, a MiB,
// and 128 units for each frame that returns: with functions of ordinary size far
// less than a millisecond, and with a module that is made to be the worst, out of
// the deepest recursion wazero allows, about a tenth of a second.
//
// # What is refused
//
// Threads, exceptions, garbage collection, typed function references, relaxed SIMD,
// 64-bit and multiple memories. A host that wants to run such a module anyway has to
// stop it by other means.
//
// So is code that a compiler would work at for much longer than its size tells; see
// [Limits].
package meter
