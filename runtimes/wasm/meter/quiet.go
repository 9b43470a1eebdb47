package meter

// A function that neither loops nor calls what could, and costs little with
// everything it calls, need not look at the counter: whoever calls it does. In
// unoptimised code every ninth function is one, and the most called ones are among
// them.

// summary is what is known of a function before any is written.
type summary struct {
	cost    int32
	callees []uint32
	state   summaryState
}

type summaryState byte

const (
	summaryOpen    summaryState = iota
	summaryVisited              // being looked at, or not quiet
	summaryQuiet
)

// quietBytes is the size from which a body is not looked at: it costs too much.
const quietBytes = 8 * quietCall

// findQuiet fills in quiet, from the bodies that r is at.
func (w *rewriter) findQuiet(r reader, bodies uint32) *Error {
	functions := make([]summary, bodies)
	for i := range functions {
		f := &functions[i]
		r.function = int(w.module.importedFuncs) + i
		size := r.u32()
		start := r.skip(size)
		if r.err != nil {
			return r.err
		}
		if size > quietBytes {
			f.state = summaryVisited
			continue
		}
		b := &reader{data: r.data, pos: start, end: r.pos, section: r.section, function: r.function}
		w.scan(b)
		if b.err != nil {
			return b.err
		}
		if f.cost = w.plan.total(); w.plan.wild || f.cost > quietCall {
			f.state = summaryVisited
			continue
		}
		f.callees = append([]uint32(nil), w.plan.callees...)
	}
	w.quiet = make([]int32, bodies)
	for i := range functions {
		if quiet(functions, uint32(i), 0) {
			w.quiet[i] = max(functions[i].cost, 1)
		}
	}
	return nil
}

// quiet decides about a function and all that it calls, and adds up their cost.
// Functions that call each other in a circle are not quiet, nor are deep chains.
func quiet(functions []summary, i uint32, depth int) bool {
	f := &functions[i]
	if f.state != summaryOpen {
		return f.state == summaryQuiet
	}
	f.state = summaryVisited
	if depth > quietCall {
		return false
	}
	for _, c := range f.callees {
		if !quiet(functions, c, depth+1) {
			return false
		}
		if f.cost += functions[c].cost; f.cost > quietCall {
			return false
		}
	}
	f.state = summaryQuiet
	return true
}
