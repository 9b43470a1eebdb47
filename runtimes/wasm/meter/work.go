package meter

// What a runtime spends on compiling a function is not in proportion to its bytes.
// wazero brings code into a form in which each value is set once: where ways of
// control meet, or a loop begins, every local variable that is read later becomes a
// value of its own, which takes it some microseconds; so does every operand of calls
// and branches with many results; and what is live is worked out for all pieces of
// straight code together, which takes the square of their number. A few thousand bytes can thus be hours of
// work and gigabytes of memory, and nothing can end it in the middle of a function.
// work estimates that, and Limits bound it. The estimates are rough; what takes a
// second or more of one processor is what they are to find.

// work is what is known of the body that is read.
type work struct {
	// locals is how many variables there are, parameters included, and each has the
	// number of ways there were when it was last read or set.
	locals int
	seen   []uint32
	// ways counts where control could go on to.
	ways uint32
	// joins and operands are the estimates.
	joins, operands uint64
	// allLocals is how many variables the functions have that were read so far, and
	// allOperands how many operands.
	allLocals, allOperands uint64
}

// manyLocals is the number of variables from which each of them costs more, because
// there are so many.
const manyLocals = 1024

// freeOperands is how many operands all functions may have beyond one for each byte
// of the module. Code that means well has one for three bytes.
const freeOperands = 1_000_000

// start forgets all functions, and begin starts with the next, which has so many
// variables and whose type is so wide.
func (k *work) start() { k.allLocals, k.allOperands = 0, 0 }

func (k *work) begin(locals, width int) {
	k.locals = locals
	k.ways, k.joins, k.operands = 0, 0, uint64(width)
	if cap(k.seen) < locals {
		k.seen = make([]uint32, locals)
	}
	k.seen = k.seen[:locals]
	clear(k.seen)
}

// set notes that a variable is set, and read that it is read in as many loops. An
// index of none is for the runtime to refuse.
func (k *work) set(local uint32) {
	if local < uint32(len(k.seen)) {
		k.seen[local] = k.ways
	}
}

func (k *work) read(local uint32, loops int) {
	if local >= uint32(len(k.seen)) {
		return
	}
	if since := k.ways - k.seen[local]; since > 0 {
		k.joins += uint64(since) * uint64(max(1, loops)) * uint64(max(1, k.locals/manyLocals))
		k.seen[local] = k.ways
	}
}

// check refuses a body that is too much work.
func (k *work) check(r *reader, at int, lim Limits) {
	switch {
	case k.ways > lim.Ways:
		r.fail(at, ErrLimit, "control parts in more than %d ways", lim.Ways)
	case k.joins > lim.Joins:
		r.fail(at, ErrLimit, "more than %d local variables are live where ways of control meet", lim.Joins)
	case k.operands > lim.Operands:
		r.fail(at, ErrLimit, "calls, blocks and branches have more than %d operands", lim.Operands)
	case k.allOperands+k.operands > uint64(len(r.data))+freeOperands:
		r.fail(at, ErrLimit, "calls, blocks and branches of all functions have more than %d operands", len(r.data)+freeOperands)
	}
}
