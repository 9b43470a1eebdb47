package programmatic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Call is one call of a program as its caller sees it.
type Call struct {
	// ID is unique within the program.
	ID string
	// Name is the tool's own, Input a JSON object.
	Name  string
	Input json.RawMessage
}

// call is one call and what became of it.
type call struct {
	Call   // its ID is empty until it is issued
	number int
	issued bool
	// answer takes the one reply, while the call is open; given tells what it was.
	answer   chan backend.ControlReply
	answered bool
	given    digest
}

// closing decides when the calls that came belong to one round.
type closing struct {
	timer *time.Timer // nil while there is nothing to close
	first time.Time
	due   time.Time

	// Calls have numbers, and some may come before earlier ones, which are awaited:
	// between from, where the last round ended, and last, so many came.
	from, last, came int
}

// arrived notes the number of a call.
func (c *closing) arrived(number int) {
	if number > c.from {
		c.came++
		c.last = max(c.last, number)
	}
}

// awaits reports whether calls are on their way that were made before others that came.
func (c *closing) awaits() bool { return c.came < c.last-c.from }

// closed begins the next round, which awaits nothing of this one: what has not come was
// withdrawn on the way.
func (c *closing) closed() { c.from, c.came = c.last, 0 }

func (c *closing) disarm() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// Call is backend.RunIO's: it asks the program's caller, and returns when that has
// answered or ctx ends.
func (p *Program[R]) Call(ctx context.Context, in backend.ControlCall) (backend.ControlReply, error) {
	c, refused := p.add(in)
	if refused != "" {
		return backend.ControlReply{Error: refused}, nil
	}
	select {
	case a := <-c.answer:
		return a, nil
	case <-ctx.Done():
		p.withdraw(c)
		return backend.ControlReply{}, ctx.Err()
	}
}

// add takes a call in, or says what is wrong with it: such calls are the program's own
// business and cost its caller nothing.
func (p *Program[R]) add(in backend.ControlCall) (c *call, refused string) {
	input := bytes.TrimSpace(in.Input)
	object := len(input) > 0 && input[0] == '{' && json.Valid(input)
	r := p.r
	// Backends number calls (backend.ControlCall); other ids are as good as none.
	number, _ := strconv.Atoi(in.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.closing.arrived(number)
	switch {
	case !object:
		return nil, "the input of a tool must be a JSON object"
	case p.state == over || p.stopped != nil:
		return nil, "the program is being ended"
	case !p.tools[in.Name]:
		return nil, fmt.Sprintf("tool %q is not one of this program's tools", in.Name)
	case len(p.calls) >= r.o.Calls:
		return nil, fmt.Sprintf("a program may make at most %d calls", r.o.Calls)
	case p.rounds >= r.o.Rounds:
		return nil, fmt.Sprintf("a program may ask for tools at most %d times", r.o.Rounds)
	}
	c = &call{
		Call: Call{Name: in.Name, Input: in.Input}, number: number,
		answer: make(chan backend.ControlReply, 1),
	}
	p.calls = append(p.calls, c)
	p.open = append(p.open, c)
	if p.state == running {
		p.gather()
	}
	return c, ""
}

// gather lets the round close in a moment. mu is held.
func (p *Program[R]) gather() {
	now := time.Now()
	cl := &p.closing
	if cl.timer == nil {
		cl.first = now
		cl.due = now.Add(p.pause)
		cl.timer = time.AfterFunc(p.pause, p.closeRound)
		return
	}
	cl.due = p.latest(now.Add(p.pause))
}

// latest is t, or when the round must close.
func (p *Program[R]) latest(t time.Time) time.Time {
	if most := p.closing.first.Add(p.r.o.GatherMost); t.After(most) {
		return most
	}
	return t
}

// withdraw takes a call back that nobody waits for any more. What is kept of it is small.
func (p *Program[R]) withdraw(c *call) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(o *call) bool { return o == c })
	c.Input, c.answer = nil, nil
}

// closeRound suspends the program and hands its open calls out, once none came for a
// moment.
func (p *Program[R]) closeRound() {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.closing.timer == nil || p.state != running || p.stopped != nil {
		return
	}
	due := p.closing.due
	if p.closing.awaits() {
		due = p.latest(time.Now().Add(p.pause))
	}
	if wait := time.Until(due); wait > 0 {
		p.closing.timer.Reset(wait)
		return
	}
	p.closing.timer = nil
	p.closing.closed()
	if len(p.open) == 0 {
		return // all were withdrawn; the program goes on
	}
	if r.closed {
		p.stop(ErrClosed)
		return
	}
	token, err := r.o.Token()
	if err != nil {
		p.stop(err)
		return
	}
	round := &Round{Token: token}
	slices.SortStableFunc(p.open, earlier)
	for _, c := range p.open {
		if !c.issued {
			p.issued++
			c.issued, c.ID = true, fmt.Sprintf("call_%03d", p.issued)
		}
		round.Calls = append(round.Calls, c.Call)
	}
	p.rounds++
	p.suspend(token)
	p.tell(Event[R]{Round: round})
}

// earlier puts calls in the order in which their program made them, behind those that
// were issued before. They come here by ways of their own, each in its time.
func earlier(a, b *call) int {
	switch {
	case a.issued && b.issued:
		return 0
	case a.issued:
		return -1
	case b.issued:
		return 1
	}
	return cmp.Compare(a.number, b.number)
}

// suspend lets the program wait for the continuation with that token. mu is held.
func (p *Program[R]) suspend(token string) {
	p.state, p.token = suspended, token
	p.r.tokens[token] = p
	p.slot.Leave()
	p.slot = nil
	p.arm(p.r.o.TTL, ErrExpired)
}
