package programmatic

import (
	"context"
	"time"
)

// Program is one program from its first request to its end. Begin makes it.
type Program[R any] struct {
	r      *Registry[R]
	owner  Owner
	tools  map[string]bool
	cancel context.CancelCauseFunc

	// The registry's mutex guards what follows.
	state    state
	requests []request // those that are about it, named by its caller
	// stopped is why the program is being ended; nil while it is not.
	stopped error
	slot    Slot // what it holds unless it is suspended or over
	// timer is, by state: the budget, the ttl, how long the last reply is kept.
	timer  *time.Timer
	budget time.Duration

	session   string
	elsewhere bool
	calls     []*call // all there ever were
	open      []*call // without an answer, issued ones first
	rounds    int
	issued    int // calls
	closing   closing
	pause     time.Duration // without a call, which closes a round

	token   string            // of the round that waits for its continuation
	spent   map[string]digest // earlier tokens, with what continued them
	last    *exchange
	readers int // requests with a token of it whose results are being read
	event   chan Event[R]
	outcome R
	// unread says that it ended beside its calls, and that its caller, who has a token,
	// has not been told. Until then it counts as alive.
	unread bool
}

type state int

const (
	// running: somebody waits for what comes of it.
	running state = iota
	// suspended: its caller has a token, and nobody waits.
	suspended
	// resuming: a continuation waits for room to run.
	resuming
	// over: it has ended. Its outcome may not have been asked for yet.
	over
)

// Event is what somebody who waits for a program is told: exactly one of the two.
type Event[R any] struct {
	// Round asks for tools.
	Round *Round
	// Over says that the program has ended, with Outcome.
	Over    bool
	Outcome R
}

// Round is a set of calls to be answered together.
type Round struct {
	// Token continues the program.
	Token string
	// Calls are never none, in the order in which the program made them; those of an
	// earlier round that nobody answered come first.
	Calls []Call
}

// exchange is the last continuation and what was replied to it.
type exchange struct {
	token    string
	given    digest
	reply    []byte
	answered bool
}

// Run runs the program in a goroutine of the registry's: run does it, until it has ended
// or its context does, and returns what came of it. It is called exactly once.
func (p *Program[R]) Run(ctx context.Context, run func(ctx context.Context) R) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.r.mu.Lock()
	p.cancel = cancel
	if p.stopped != nil {
		cancel(p.stopped)
	}
	p.r.mu.Unlock()
	go func() {
		defer cancel(nil)
		p.end(run(ctx))
	}()
}

// Budget ends the program, with ErrOverrun, when it has run for so long from now on, and
// again after each time it was suspended. It is what catches a backend that does not keep
// its own limit.
func (p *Program[R]) Budget(d time.Duration) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.budget = d
	if p.state == running && p.stopped == nil {
		p.arm(d, ErrOverrun)
	}
}

// Gather sets how long no further call comes before a round of this program closes. It is
// to be called before Run.
func (p *Program[R]) Gather(d time.Duration) { p.pause = d }

// arm ends the program after d. mu is held.
func (p *Program[R]) arm(d time.Duration, why error) {
	p.disarm()
	if d <= 0 {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		p.r.mu.Lock()
		defer p.r.mu.Unlock()
		if p.timer == t {
			p.stop(why)
		}
	})
	p.timer = t
}

func (p *Program[R]) disarm() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// Next waits for what comes of a program that runs. When ctx ends first, the caller is
// gone: the program is ended, and Next returns ctx's error. Meanwhile f is called, at most
// once, when alive is closed; alive may be nil.
func (p *Program[R]) Next(ctx context.Context, alive <-chan struct{}, f func()) (Event[R], error) {
	for {
		select {
		case e := <-p.event:
			return e, nil
		case <-alive:
			alive = nil
			f()
		case <-ctx.Done():
			p.Stop()
			return Event[R]{}, ctx.Err()
		}
	}
}

// SetSession notes what the caller knows the program's files by.
func (p *Program[R]) SetSession(id string) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.session = id
}

// Session returns what SetSession noted.
func (p *Program[R]) Session() string {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.session
}

// SetElsewhere notes whether the program runs on other machines.
func (p *Program[R]) SetElsewhere(elsewhere bool) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.elsewhere = elsewhere
}

// Elsewhere returns what SetElsewhere noted.
func (p *Program[R]) Elsewhere() bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.elsewhere
}

// Stop ends the program: its caller has gone away.
func (p *Program[R]) Stop() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.stop(ErrCanceled)
}

// Stopped returns why the program was ended from outside, or nil.
func (p *Program[R]) Stopped() error {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.stopped
}

// stop ends the program, and forgets one whose end nobody was told. mu is held.
func (p *Program[R]) stop(why error) {
	switch {
	case p.unread:
		p.unread, p.stopped = false, why
		p.forget()
		p.r.ended(p)
		p.tell(Event[R]{Over: true, Outcome: p.outcome}) // for a continuation under way
		return
	case p.state == over || p.stopped != nil:
		return
	}
	p.stopped = why
	p.disarm()
	p.closing.disarm()
	p.forget()
	if p.cancel != nil {
		p.cancel(why)
	}
}

// tell whoever waits, or will. There is room for one event, and never a second before
// somebody has read the first; if there were, everybody else must not wait for it. mu is
// held.
func (p *Program[R]) tell(e Event[R]) {
	select {
	case p.event <- e:
	default:
	}
}

// forget makes its tokens mean nothing any more. mu is held.
func (p *Program[R]) forget() {
	p.disarm()
	delete(p.r.tokens, p.token)
	for t := range p.spent {
		delete(p.r.tokens, t)
	}
	p.token, p.last = "", nil
}

// end notes what came of the program and gives back what it held.
func (p *Program[R]) end(outcome R) {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	waits, told := p.state == running, p.state != suspended
	if p.slot != nil {
		p.slot.Leave()
		p.slot = nil
	}
	p.state, p.outcome, p.open = over, outcome, nil
	for _, c := range p.calls {
		c.Input = nil // a last continuation may still name them
	}
	p.closing.disarm()
	if !waits && p.stopped == nil {
		p.unread = true // the ttl goes on, or a continuation will be told
		return
	}
	if told {
		p.tell(Event[R]{Over: true, Outcome: outcome})
	}
	if p.stopped == nil {
		r.keep(p)
	}
	r.ended(p)
}
