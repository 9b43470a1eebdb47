package control

import (
	"context"
	"errors"
	"strconv"
	"sync"
)

// Config sets up a Run.
type Config struct {
	// Call asks the host for one call and waits for the answer, or until nobody works
	// on it any more after ctx has ended. An error that is not that of ctx means that
	// nobody listens any more.
	Call func(ctx context.Context, c Call) (Reply, error)
	// Clock is the run's wall clock; nil for none.
	Clock *Clock
	// Gone is called, from any goroutine and maybe more than once, when nobody listens
	// any more: the program is to be stopped. Required.
	Gone func(error)
}

// Run is the channel of one run. It is safe for concurrent use.
type Run struct {
	cfg   Config
	ctx   context.Context // of the calls
	end   context.CancelFunc
	calls sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something changes
	closed  bool
	conns   map[*Conn]struct{}
	next    int   // id of the last call
	open    int   // calls that the program waits for
	asking  int   // calls that have not returned, withdrawn ones too
	held    int   // bytes of large frames that are being read, and of the inputs of those
	kept    int   // bytes of answers not fetched
	large   *Conn // the one connection that may read a large frame
}

// Errors of connections.
var (
	// ErrClosed: the run is over, or the connection was closed.
	ErrClosed = errors.New("control: closed")
	// errTooMany: there are MaxConns connections.
	errTooMany = errors.New("control: too many connections")
)

// NewRun returns the channel of a run whose program may call until Close, or until ctx
// ends.
func NewRun(ctx context.Context, cfg Config) *Run {
	r := &Run{cfg: cfg, changed: make(chan struct{}), conns: make(map[*Conn]struct{})}
	r.ctx, r.end = context.WithCancel(ctx)
	return r
}

// Close ends every connection and call, and waits until no Call is under way.
func (r *Run) Close() {
	r.end()
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		c.drop()
	}
	r.announce()
	r.mu.Unlock()
	r.calls.Wait()
}

// Suspended reports whether calls are open, and returns a channel that is closed once
// anything has changed.
func (r *Run) Suspended() (open bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open > 0, r.changed
}

// announce tells everybody who waits that something has changed. The caller holds mu.
func (r *Run) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Dial opens a connection. The caller closes it.
func (r *Run) Dial() (*Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if len(r.conns) >= MaxConns {
		return nil, errTooMany
	}
	c := &Conn{run: r, waiting: make(map[string]context.CancelFunc)}
	c.ctx, c.cancel = context.WithCancel(r.ctx)
	r.conns[c] = struct{}{}
	return c, nil
}

// dialWhenFree waits until a connection may be opened.
func (r *Run) dialWhenFree(ctx context.Context) (*Conn, error) {
	for {
		_, changed := r.Suspended()
		c, err := r.Dial()
		if !errors.Is(err, errTooMany) {
			return c, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ask makes one call without a connection, for backends whose command is their own. It
// counts as one, and waits until there may be one more. The error is that of ctx or that
// nobody listens.
func (r *Run) Ask(ctx context.Context, name string, input []byte) (Reply, error) {
	c, err := r.dialWhenFree(ctx)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return exchange(ctx, c, name, input)
}

// begin counts a call of n bytes of input. The caller holds mu.
func (r *Run) begin(n int) (id string) {
	r.next++
	r.asking++
	r.held += n
	if r.open++; r.open == 1 && r.cfg.Clock != nil {
		r.cfg.Clock.Stand()
	}
	return strconv.Itoa(r.next)
}

// settle is the end of a call for its program: it was answered, or withdrawn. The caller
// holds mu.
func (r *Run) settle() {
	if r.open--; r.open == 0 && r.cfg.Clock != nil {
		r.cfg.Clock.Go()
	}
}
