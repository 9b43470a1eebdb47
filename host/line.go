package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/sdk/backend"
)

// line is the succession of programs that serve one plugin's name: the one in
// service, those that left and end with their last call, and those that stay for
// sandboxes that the one in service cannot serve.
type line struct {
	slot *handoff.Slot[*program]

	mu      sync.Mutex // of changes to stays
	stays   atomic.Pointer[[]*stay]
	closing chan struct{}
	closed  sync.Once
}

func newLine(first *program) *line {
	l := &line{closing: make(chan struct{})}
	l.stays.Store(new([]*stay))
	l.slot = handoff.New(first, l.dispose)
	return l
}

// lease is a loan of what serves one plugin's name.
type lease struct {
	unit    *unit
	backend backend.Backend
	// pin says that the loan may last; release ends it. Both may be called again.
	pin, release func()
}

// acquire borrows the running process, waiting while it starts. The error is a
// KindUnavailable one when there is none.
func (l *line) acquire(ctx context.Context) (lease, error) {
	ref, err := l.slot.Acquire()
	if err != nil {
		return lease{}, backend.Errorf(backend.KindUnavailable, "start", "the host is closing")
	}
	p := ref.Value()
	u, err := p.sup.Unit(ctx)
	if err != nil {
		ref.Release()
		return lease{}, p.unavailable(err)
	}
	h := &hold{ref: ref}
	if len(*l.stays.Load()) == 0 {
		return lease{unit: u, backend: newRouted(p, u, nil, nil), pin: h.pin, release: h.release}, nil
	}
	stays := l.borrow(p)
	return lease{
		unit: u, backend: newRouted(p, u, l.stayOf(p), stays), pin: h.pin,
		release: sync.OnceFunc(func() {
			h.release()
			for _, s := range stays {
				s.giveBack()
			}
		}),
	}, nil
}

// hold is one loan from the slot.
type hold struct {
	mu   sync.Mutex
	ref  handoff.Ref[*program]
	over bool
}

func (h *hold) pin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.ref = h.ref.Pin()
	}
}

func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		h.ref.Release()
	}
}

// program is the one in service; nil when the host is closed.
func (l *line) program() *program {
	ref, err := l.slot.Acquire()
	if err != nil {
		return nil
	}
	defer ref.Release()
	return ref.Value()
}

// close ends every program. What stays for sandboxes ends with the rest: they live
// on at their provider.
func (l *line) close(ctx context.Context) error {
	l.closed.Do(func() { close(l.closing) })
	return l.slot.Close(ctx)
}

// dispose ends a program that nobody calls any more: at once, or when the sandboxes
// that need it are gone.
func (l *line) dispose(ctx context.Context, p *program) error {
	l.outlive(ctx, p)
	return p.sup.Close(ctx)
}

// status is how the program in service is now; st is what was found.
func (l *line) status(st PluginStatus) PluginStatus {
	p := l.program()
	if p == nil {
		st.State, st.Cause = PluginStopped, "the host is closing"
		return st
	}
	return p.status(p.found.status)
}

func (p *program) status(st PluginStatus) PluginStatus {
	v := p.sup.View()
	st.State, st.Since, st.Restarts = pluginState(v.State), v.Since, v.Restarts
	if st.State != PluginReady {
		st.Cause = v.Cause
	}
	switch st.State {
	case PluginQuarantined:
		st.Fix = "mend the cause, then run caisson plugin reset " + st.Name
	case PluginFailed:
		st.Fix = "mend the file: it is started then"
	}
	return st
}

// staying describes the versions that stay for their sandboxes, the newest first.
func (l *line) staying() []PluginStatus {
	var out []PluginStatus
	now := l.program()
	for _, s := range *l.stays.Load() {
		if s.program == now || now == nil {
			continue
		}
		st := s.program.status(s.program.found.status)
		why := fmt.Sprintf("stays for %d sandboxes that version %s does not serve", s.count(), now.found.m.Version)
		if st.State == PluginReady {
			st.State, st.Cause = PluginDraining, why
		} else {
			st.Cause = why + "; " + st.Cause
		}
		out = append(out, st)
	}
	return out
}
