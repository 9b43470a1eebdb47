package programmatic

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Result answers one call.
type Result struct {
	// CallID is that of the call.
	CallID string
	// Value is any JSON value. It counts unless IsError.
	Value json.RawMessage
	// IsError makes the answer an exception with the text Error.
	IsError bool
	Error   string
}

// digest tells what was answered.
type digest [sha256.Size]byte

func (x Result) digest() digest {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part([]byte(x.CallID))
	if x.IsError {
		part([]byte("error"))
		part([]byte(x.Error))
	} else {
		part([]byte("result"))
		part(x.Value)
	}
	return digest(h.Sum(nil))
}

// digestOf is the same for the same results in any order.
func digestOf(each []digest) digest {
	sorted := slices.Clone(each)
	slices.SortFunc(sorted, func(a, b digest) int { return slices.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, d := range sorted {
		h.Write(d[:])
	}
	return digest(h.Sum(nil))
}

func (x Result) reply() backend.ControlReply {
	switch {
	case x.IsError && x.Error == "":
		return backend.ControlReply{Error: "the tool failed"}
	case x.IsError:
		return backend.ControlReply{Error: x.Error}
	case len(x.Value) == 0:
		return backend.ControlReply{Result: []byte("null")}
	}
	return backend.ControlReply{Result: x.Value}
}

// maxReaders is how many continuations of one program are read at the same time: one,
// and one more whose caller believes that the first was lost. They hold up to MaxBody
// each, which only one of them is for.
const maxReaders = 2

// Read is asked before the rest of a continuation is read, and end is to be called once
// afterwards. The errors are ErrNotFound, unless token means something to owner, and
// ErrInFlight where enough continuations of the program are being read.
func (r *Registry[R]) Read(owner Owner, token string) (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.tokens[token]
	switch {
	case p == nil || p.owner != owner:
		return nil, ErrNotFound
	case p.readers >= maxReaders:
		return nil, ErrInFlight
	}
	p.readers++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		p.readers--
	}, nil
}

// Continuation is a continuation that was accepted.
type Continuation[R any] struct {
	*Program[R]
	// Replay is the reply that was given to the same continuation before, to be given
	// again; nil for a new one, which Resume or Abandon must follow.
	Replay []byte

	token   string
	before  *exchange
	deliver []delivery
}

type delivery struct {
	c     *call
	reply backend.ControlReply
	given digest
}

// Continue accepts results for the round of token. The same results again are answered
// with the same reply; of a round, only some of the calls may be answered. requestID is
// what a cancellation may name from now on, beside earlier ones. The errors are
// ErrNotFound, ErrInFlight, ErrAnswered, ErrCanceled and *ResultError.
func (r *Registry[R]) Continue(owner Owner, requestID, token string, results []Result) (*Continuation[R], error) {
	each := make([]digest, len(results))
	for i, x := range results {
		each[i] = x.digest()
	}
	given := digestOf(each)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.tokens[token]
	if p == nil || p.owner != owner {
		return nil, ErrNotFound
	}
	if token != p.token {
		return p.again(token, given)
	}
	if p.last != nil && p.last.token == token {
		return nil, ErrInFlight
	}
	deliver, err := p.match(results, each)
	if err != nil {
		return nil, err
	}
	q := request{owner, requestID}
	if requestID != "" && r.canceled.take(q) {
		p.stop(ErrCanceled)
		return nil, ErrCanceled
	}
	p.answers(q)
	p.disarm()
	if p.state == suspended {
		p.state = resuming
	}
	before := p.last
	p.last = &exchange{token: token, given: given}
	return &Continuation[R]{Program: p, token: token, before: before, deliver: deliver}, nil
}

// again answers a continuation of an earlier round. mu is held.
func (p *Program[R]) again(token string, given digest) (*Continuation[R], error) {
	switch {
	case p.spent[token] != given, p.last == nil || p.last.token != token:
		return nil, ErrAnswered
	case !p.last.answered:
		return nil, ErrInFlight
	case p.last.reply == nil:
		return nil, ErrAnswered // it was too large to be kept
	}
	return &Continuation[R]{Program: p, Replay: p.last.reply}, nil
}

// match finds the calls that results are for. mu is held.
func (p *Program[R]) match(results []Result, each []digest) ([]delivery, error) {
	byID := make(map[string]*call, len(p.calls))
	for _, c := range p.calls {
		if c.issued {
			byID[c.ID] = c
		}
	}
	seen := make(map[string]bool, len(results))
	var out []delivery
	for i, x := range results {
		c := byID[x.CallID]
		switch {
		case c == nil:
			return nil, &ResultError{fmt.Sprintf("tool_results[%d].call_id is not that of a call of this execution", i)}
		case seen[x.CallID]:
			return nil, &ResultError{fmt.Sprintf("tool_results[%d].call_id comes twice", i)}
		case c.answered && c.given != each[i]:
			return nil, ErrAnswered
		}
		seen[x.CallID] = true
		if !c.answered {
			out = append(out, delivery{c, x.reply(), each[i]})
		}
	}
	if len(out) == 0 && len(p.open) > 0 {
		return nil, &ResultError{"tool_results must answer at least one call"}
	}
	return out, nil
}

// Over reports whether the program has ended meanwhile: it needs no room to run.
func (c *Continuation[R]) Over() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return c.state == over
}

// Abandon lets the program be suspended again: it got no room to run.
func (c *Continuation[R]) Abandon() {
	p := c.Program
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	switch {
	case p.stopped != nil:
		return
	case p.r.closed:
		p.stop(ErrClosed)
		return
	}
	p.last = c.before
	if p.state == resuming {
		p.state = suspended
	}
	p.arm(p.r.o.TTL, ErrExpired)
}

// Resume gives the results to the program, which runs on in slot. Next tells what comes
// of it.
func (c *Continuation[R]) Resume(slot Slot) {
	p, r := c.Program, c.Program.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.stopped != nil {
		slot.Leave() // its end comes as the next event
		return
	}
	p.spent[c.token] = p.last.given
	p.token = ""
	if p.state == over {
		slot.Leave()
		p.unread = false
		p.tell(Event[R]{Over: true, Outcome: p.outcome})
		r.keep(p)
		r.ended(p)
		return
	}
	p.state, p.slot = running, slot
	p.arm(p.budget, ErrOverrun)
	for _, d := range c.deliver {
		d.c.answered, d.c.given, d.c.Input = true, d.given, nil
		if i := slices.Index(p.open, d.c); i >= 0 { // nobody waits for one that was withdrawn
			p.open = slices.Delete(p.open, i, i+1)
			d.c.answer <- d.reply
		}
	}
	if len(p.open) > 0 {
		p.gather() // those that came meanwhile, and those that nobody answered
	}
}

// Answered keeps the reply to this continuation, for the case that it comes again.
// Nothing is kept of a nil reply: the same continuation is then refused.
func (c *Continuation[R]) Answered(reply []byte) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if x := c.last; x != nil && x.token == c.token {
		x.reply, x.answered = reply, true
	}
}
