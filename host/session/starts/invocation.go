package starts

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Invocation is one call of a function, which may start a bounded number of sandboxes
// whatever other limits there are: a limiter that ships disabled protects nobody. It
// is safe for concurrent use.
type Invocation struct {
	s        *Service
	function string

	mu   sync.Mutex
	used int
}

// Invoke returns the Invocation of one call of a function, which is named in logs. It
// may be called on a nil Service.
func (s *Service) Invoke(function string) *Invocation { return &Invocation{s: s, function: function} }

// Start is Service.Start for a spec in JSON, as the function wrote it. What is
// malformed costs nothing.
func (v *Invocation) Start(ctx context.Context, org string, spec []byte) (string, error) {
	return v.s.start(ctx, org, v.function, func() (Sandbox, error) { return Parse(spec) }, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.used >= v.s.o.PerInvocation {
			return ErrTooMany
		}
		v.used++
		return nil
	})
}

// beginning is the RunIO of work whose output nobody reads, and how its caller learns
// that it began, did not begin, or begins too late.
type beginning struct {
	id   string
	told chan struct{} // closed once it is known

	mu        sync.Mutex
	known     bool
	err       error
	abandoned bool
}

var errAbandoned = errors.New("whoever started it has gone")

// Started lets the work begin if somebody still waits for its name.
func (b *beginning) Started() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.abandoned {
		return errAbandoned
	}
	b.settle(nil)
	return nil
}

// tell says that the work did not begin, unless it did, and reports whether that was
// news.
func (b *beginning) tell(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := !b.known
	b.settle(err)
	return news
}

// settle makes an outcome known, once. Callers hold mu.
func (b *beginning) settle(err error) {
	if !b.known {
		b.known, b.err = true, err
		close(b.told)
	}
}

// abandon keeps work from beginning that nobody waits for. It is false when the
// outcome is known already.
func (b *beginning) abandon() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.abandoned = !b.known
	return b.abandoned
}

// outcome is valid once told.
func (b *beginning) outcome() (id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id, b.err
}

func (*beginning) Input(int) (io.Reader, error) { return nil, errors.New("there are no inputs") }
func (*beginning) Stdin() io.Reader             { return strings.NewReader("") }
func (*beginning) Stdout([]byte) error          { return nil }
func (*beginning) Stderr([]byte) error          { return nil }

func (*beginning) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, &backend.Error{Kind: backend.KindUnsupported, Op: "Call", Message: "started work has no callers"}
}
