package meter

// A body is charged at points. The cost of every instruction belongs to exactly
// one point, the last one from which control cannot fail to reach it; so code in
// which two ways meet again shares the point ahead of where they parted, and the
// arms of an if have points of their own. A point takes what it is worth off the
// counter when control passes it. Some points also look whether the counter is
// spent: looking costs more than charging, and is done where control could
// otherwise go on for long.

// point is a place where the counter is charged. It is small, because a body can
// have one for every other byte; nothing in it comes near 1<<31, because bodies are
// bounded by maxFunctionBytes.
type point struct {
	at uint32 // offset in the module
	// weight is the cost of the instructions that belong to it, and lumped that of
	// other points that is charged here.
	weight, lumped int32
	// hidden is what quiet functions that are called here cost at most. They charge
	// for it themselves.
	hidden int32
	// look says that control looks whether the counter is spent.
	look bool
	// exit marks the place ahead of an instruction that may leave the function, where
	// nothing is charged.
	exit bool
	// parent is the point that control came from.
	parent int32
}

func (c *point) cost() int32 { return c.weight + c.lumped }

// frame is a block, loop, if or function that is open.
type frame struct {
	op byte
	// entry is the point in force where it began, or dead.
	entry int
	// reaches is the outermost frame that a branch from inside goes to.
	reaches int
	// targeted says that a branch goes to its end.
	targeted bool
	// width is how many values a branch to it carries.
	width int
}

// dead is the point of code that control cannot reach.
const dead = -1

// The values from which CPython gains nothing by larger ones.
const (
	// quietCost is the cost up to which a point need not look at the counter, and
	// quietSum what such points of one function may cost together, about a tenth of a
	// millisecond.
	quietCost = 64
	quietSum  = 256 << 10
	// quietExit is the cost from which a function that calls others looks when it is
	// left: a deep recursion returns through all its frames.
	quietExit = 128
	// quietCall is the cost up to which a function does not look at all, and quietRun
	// what such functions may cost that are called one after the other.
	quietCall = 256
	quietRun  = 4096
)

// plan places the points of one body.
type plan struct {
	points []point
	frames []frame
	// cur is the point that pays for the next instruction.
	cur int
	// loops counts those that control can reach. loopDepth is how many are open, and
	// targets counts those of br_table.
	loops, loopDepth int
	targets          uint32
	// callees are the functions called by index, up to a number, and wild says that
	// there are loops, more calls or calls of unknown functions.
	callees []uint32
	wild    bool
	// deep says that a function was called that may call others in turn, and after
	// is the cost of the code that follows.
	deep  bool
	after int32
}

func (p *plan) begin(at, width int) {
	p.points = append(p.points[:0], point{at: uint32(at), look: true})
	p.frames = append(p.frames[:0], frame{op: opBlock, width: width})
	p.cur = 0
	p.loops, p.loopDepth, p.targets = 0, 0, 0
	p.callees = p.callees[:0]
	p.wild, p.deep, p.after = false, false, 0
}

func (p *plan) spend(weight int32) {
	if p.cur != dead {
		p.points[p.cur].weight += weight
		if p.deep {
			p.after += weight
		}
	}
}

func (p *plan) newPoint(at, parent int, look bool) int {
	p.points = append(p.points, point{at: uint32(at), look: look, parent: int32(parent)})
	return len(p.points) - 1
}

// open enters a block, loop or if whose first instruction is at an offset, and to
// which a branch carries so many values.
func (p *plan) open(op byte, at, width int) {
	p.frames = append(p.frames, frame{op: op, entry: p.cur, reaches: len(p.frames), width: width})
	if p.cur == dead {
		return
	}
	switch op {
	case opLoop:
		p.cur = p.newPoint(at, p.cur, true)
		p.loops++
		p.wild = true
	case opIf:
		p.cur = p.newPoint(at, p.cur, false)
	}
}

// alternative enters the else of the innermost if, and reports whether there is
// one that waits for it.
func (p *plan) alternative(at int) bool {
	f := &p.frames[len(p.frames)-1]
	if f.op != opIf {
		return false
	}
	f.op = opElse
	f.targeted = f.targeted || p.cur != dead
	if p.cur = dead; f.entry != dead {
		p.cur = p.newPoint(at, f.entry, false)
	}
	return true
}

// end leaves the innermost frame; next is the offset of what follows. It reports
// whether the function is over.
func (p *plan) end(next int) bool {
	last := len(p.frames) - 1
	f := p.frames[last]
	p.frames = p.frames[:last]
	if f.op == opLoop {
		p.loopDepth--
	}
	if last == 0 {
		return true
	}
	parent := &p.frames[last-1]
	parent.reaches = min(parent.reaches, f.reaches)
	switch {
	case f.entry == dead, p.cur == dead && !f.targeted && f.op != opIf:
		p.cur = dead
	case f.reaches < last:
		// Some of what went in has left for elsewhere.
		p.cur = p.newPoint(next, f.entry, false)
	default:
		p.cur = f.entry
	}
	return false
}

// branch notes that the instruction at an offset may branch to a label.
func (p *plan) branch(at int, label uint32) {
	if p.cur == dead {
		return
	}
	target := len(p.frames) - 1 - int(label)
	p.reach(target)
	if target == 0 {
		p.exits(at)
	}
}

// reach notes a branch to a frame by its place.
func (p *plan) reach(target int) {
	top := &p.frames[len(p.frames)-1]
	top.reaches = min(top.reaches, target)
	if f := &p.frames[target]; f.op != opLoop {
		f.targeted = true
	}
}

// exits notes that the instruction at an offset may leave the function.
func (p *plan) exits(at int) {
	if last := p.points[len(p.points)-1]; p.cur != dead && !(last.exit && last.at == uint32(at)) {
		p.points = append(p.points, point{at: uint32(at), exit: true})
	}
}

// leave ends code that returns or calls in the place of returning.
func (p *plan) leave() {
	if p.cur != dead {
		p.reach(0)
		p.cur = dead
	}
}

// conditional starts the code that runs if a conditional branch is not taken.
func (p *plan) conditional(at int) {
	if p.cur != dead {
		p.cur = p.newPoint(at, p.cur, false)
	}
}

// call notes a call, up to the offset next, of a function with code that costs at
// most hidden, or 0 if that is not known.
func (p *plan) call(next int, function uint32, hidden int32) {
	p.deep = p.deep || hidden == 0
	if p.cur != dead {
		c := &p.points[p.cur]
		if c.hidden += hidden; c.hidden > quietRun {
			c.hidden = 0
			p.points = append(p.points, point{at: uint32(next), look: true})
		}
	}
	if len(p.callees) >= quietCall {
		p.wild = true
		return
	}
	p.callees = append(p.callees, function)
}

// callUnknown notes a call of a function of which nothing is known.
func (p *plan) callUnknown() { p.wild, p.deep = true, true }

// settle merges points and decides where the counter is looked at, after the body.
func (p *plan) settle() {
	// Charge for a small conditional piece with what it branches off from, as long as
	// that at most doubles what is paid there. From the back, because every point
	// comes after the one it hangs on.
	for i := len(p.points) - 1; i > 0; i-- {
		c := &p.points[i]
		if c.look || c.weight == 0 {
			continue
		}
		up := &p.points[c.parent]
		if total := c.cost(); up.lumped+total <= up.weight && up.hidden+c.hidden <= quietRun {
			up.lumped += total
			up.hidden += c.hidden
			c.weight, c.lumped, c.hidden = 0, 0, 0
		}
	}
	var sum int32
	for i := range p.points {
		c := &p.points[i]
		if c.look || c.cost() == 0 {
			continue
		}
		stretch := c.cost() + c.hidden
		if c.cost() > quietCost || stretch > quietCost+quietCall || sum+stretch > quietSum {
			c.look = true
			continue
		}
		sum += stretch
	}
	if p.after > quietExit {
		for i := range p.points {
			c := &p.points[i]
			c.look = c.look || c.exit
		}
	}
}

// total is the cost of all points.
func (p *plan) total() int32 {
	var sum int32
	for i := range p.points {
		sum += p.points[i].cost()
	}
	return sum
}

// silence has nothing look.
func (p *plan) silence() {
	for i := range p.points {
		p.points[i].look = false
	}
}
