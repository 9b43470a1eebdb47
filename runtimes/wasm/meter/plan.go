package meter

// A body is charged at points. The cost of every instruction belongs to exactly
// one point, the last one from which control cannot fail to reach it; so code that
// two ways lead to shares the point ahead of where they part, and the arms of an
// if have points of their own. A point takes what it is worth off the counter when
// control passes it. Points at function entries and loop headers also look whether
// the counter is spent.

// point is a place where the counter is charged.
type point struct {
	at     int // offset in the module
	weight int64
	check  bool
	// parent is the point control came from, or -1.
	parent int
	lumped int64
}

// frame is a block, loop, if or function that is open.
type frame struct {
	op byte
	// entry is the point in force where it began, or dead.
	entry int
	// reaches is the outermost frame that a branch from inside goes to.
	reaches int
	// targeted says that a branch goes to its end.
	targeted bool
}

// dead is the point of code that control cannot reach.
const dead = -1

// plan places the points of one body.
type plan struct {
	points []point
	frames []frame
	// cur is the point that pays for the next instruction.
	cur int
	// calls says that the body has loops or calls.
	calls bool
	loops int
}

func (p *plan) begin(at int) {
	p.points = append(p.points[:0], point{at: at, check: true, parent: -1})
	p.frames = append(p.frames[:0], frame{op: opBlock, entry: 0, reaches: 0})
	p.cur = 0
	p.calls = false
	p.loops = 0
}

func (p *plan) spend(weight int64) {
	if p.cur != dead {
		p.points[p.cur].weight += weight
	}
}

func (p *plan) newPoint(at, parent int, check bool) int {
	p.points = append(p.points, point{at: at, check: check, parent: parent})
	return len(p.points) - 1
}

// open enters a block, loop or if whose first instruction is at.
func (p *plan) open(op byte, at int) {
	f := frame{op: op, entry: p.cur, reaches: len(p.frames)}
	p.frames = append(p.frames, f)
	if p.cur == dead {
		return
	}
	switch op {
	case opLoop:
		p.cur = p.newPoint(at, p.cur, true)
		p.loops++
	case opIf:
		p.cur = p.newPoint(at, p.cur, false)
	}
}

// alternative enters the else of the innermost if.
func (p *plan) alternative(at int) bool {
	f := &p.frames[len(p.frames)-1]
	if f.op != opIf {
		return false
	}
	f.op = opElse
	if p.cur != dead {
		f.targeted = true
	}
	if f.entry != dead {
		p.cur = p.newPoint(at, f.entry, false)
	} else {
		p.cur = dead
	}
	return true
}

// close leaves the innermost frame; at is behind its end. It reports whether the
// function is over.
func (p *plan) close(at int) bool {
	last := len(p.frames) - 1
	f := p.frames[last]
	p.frames = p.frames[:last]
	if last == 0 {
		return true
	}
	parent := &p.frames[last-1]
	parent.reaches = min(parent.reaches, f.reaches)
	switch {
	case f.entry == dead,
		p.cur == dead && !f.targeted && f.op != opIf:
		p.cur = dead
	case f.reaches < last:
		p.cur = p.newPoint(at, f.entry, false)
	default:
		p.cur = f.entry
	}
	return false
}

// branch notes a branch to a label, and reports whether there is such a label.
func (p *plan) branch(label uint32) bool {
	if uint64(label) >= uint64(len(p.frames)) {
		return false
	}
	if p.cur == dead {
		return true
	}
	p.reach(len(p.frames) - 1 - int(label))
	return true
}

// reach notes a branch to a frame by its place.
func (p *plan) reach(target int) {
	top := &p.frames[len(p.frames)-1]
	top.reaches = min(top.reaches, target)
	if f := &p.frames[target]; f.op != opLoop {
		f.targeted = true
	}
}

// conditional starts the code that runs if a conditional branch is not taken.
func (p *plan) conditional(at int) {
	if p.cur != dead {
		p.cur = p.newPoint(at, p.cur, false)
	}
}

// settle merges points, after the body.
func (p *plan) settle(slack int64, leaf int64) {
	for i := len(p.points) - 1; i > 0; i-- {
		c := &p.points[i]
		if c.check || c.weight == 0 {
			continue
		}
		up := &p.points[c.parent]
		total := c.weight + c.lumped
		if up.lumped+total <= up.weight*slack/100 {
			up.lumped += total
			c.weight, c.lumped = 0, 0
		}
	}
	if !p.calls && p.loops == 0 {
		var sum int64
		for _, c := range p.points {
			sum += c.weight + c.lumped
		}
		if sum <= leaf {
			p.points[0].check = false
		}
	}
}
