package supervise

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// unit is a program that does as it is told.
type unit struct {
	n      int
	done   chan struct{}
	once   sync.Once
	how    Ended
	frozen atomic.Bool  // answers nothing, and stops by force only
	reason atomic.Value // why it is not ready, a string
}

func (u *unit) Done() <-chan struct{} { return u.done }

func (u *unit) Ended() Ended { return u.how }

func (u *unit) Serving() bool {
	select {
	case <-u.done:
		return false
	default:
		return true
	}
}

func (u *unit) crash(cause string) {
	u.once.Do(func() {
		u.how = Ended{Cause: cause, Lines: []string{"last words"}}
		close(u.done)
	})
}

func (u *unit) Stop(ctx context.Context) error {
	if u.frozen.Load() {
		<-ctx.Done()
	}
	u.crash("stopped")
	return nil
}

// program launches units and counts those that live.
type program struct {
	mu       sync.Mutex
	launched []*unit
	fail     error
	takes    time.Duration
}

func (p *program) launch(ctx context.Context) (*unit, error) {
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	u := &unit{n: len(p.launched) + 1, done: make(chan struct{})}
	p.launched = append(p.launched, u)
	return u, nil
}

func (p *program) check(ctx context.Context, u *unit) (Health, error) {
	if u.frozen.Load() {
		<-ctx.Done()
		return Health{}, ctx.Err()
	}
	if r, _ := u.reason.Load().(string); r != "" {
		return Health{Reason: r}, nil
	}
	return Health{Ready: true}, nil
}

func (p *program) living() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.launched {
		select {
		case <-u.done:
		default:
			n++
		}
	}
	return n
}

// supervised runs f in a bubble with fake time and checks that nothing is left.
func supervised(t *testing.T, change func(*Options[*unit]), f func(t *testing.T, p *program, s *Supervisor[*unit])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &program{takes: 50 * time.Millisecond}
		o := Options[*unit]{Name: "p", Launch: p.launch, Check: p.check, Jitter: func() float64 { return 0.5 }}
		if change != nil {
			change(&o)
		}
		s := New(o)
		defer func() {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if n := p.living(); n != 0 {
				t.Errorf("%d units live after Close", n)
			}
			if st := s.View().State; st != Stopped {
				t.Errorf("state after Close is %q", st)
			}
			var un *UnavailableError
			if _, err := s.Unit(t.Context()); !errors.As(err, &un) || un.State != Stopped {
				t.Errorf("Unit after Close: %v", err)
			}
		}()
		f(t, p, s)
	})
}

func running(t *testing.T, s *Supervisor[*unit]) *unit {
	t.Helper()
	u, err := s.Unit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// runningWithin waits out the pauses.
func runningWithin(t *testing.T, s *Supervisor[*unit], limit time.Duration) *unit {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		u, err := s.Unit(t.Context())
		if err == nil {
			return u
		}
		var un *UnavailableError
		if !errors.As(err, &un) || un.State != Backoff {
			t.Fatal(err)
		}
		time.Sleep(un.RetryAfter)
	}
	t.Fatalf("nothing runs after %v", limit)
	return nil
}
