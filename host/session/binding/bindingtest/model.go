package bindingtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// The model is what an engine means, for one session and a handful of names, written
// down once more as plainly as possible. It is a value that can be compared, so that
// histories of concurrent steps can be searched for an order that explains them.
type model struct {
	now     int64 // ms
	bound   bool
	sandbox int
	token   int
	stale   int64
	lock    modelLease
	fence   binding.Fence // the largest given out
	rewind  modelLease
	turns   [holders]int64 // until
	spent   bool
	work    [works]struct {
		until int64
		kind  int
	}
}

type modelLease struct {
	holder int // from 1; 0 is nobody
	until  int64
}

const (
	holders = 4
	works   = 3
)

// op is one step with its arguments; which of them count depends on the step.
type op struct {
	step    string
	holder  int // from 1
	sandbox int
	token   int
	work    int
	kind    int
	limit   int
	lease   time.Duration
	rebuild binding.Rebuild
	what    binding.Lease
	fenced  bool          // use the holder's last fence
	fence   binding.Fence // that fence, when it was used
}

// result is what a step answered.
type result struct {
	ok    bool
	fence binding.Fence
	err   error // one of the named ones, bare
	state binding.State
	work  [works]int // kind, or -1
}

var modelSteps = []string{
	"State", "Create", "DeleteIfMatch", "ReplaceToken", "MarkStale", "Lock", "LockRewind", "BeginTurn",
	"Renew", "Release", "AddWork", "RenewWork", "RemoveWork", "Work",
}

func name(prefix string, i int) string { return fmt.Sprint(prefix, i) }

// modelErrors are those that are part of a step's meaning.
var modelErrors = []error{
	binding.ErrOwnershipLost, binding.ErrRewindLocked, binding.ErrTurnActive, binding.ErrWorkActive, binding.ErrWorkLimit,
}

// run does a step on an engine. The error is one that no step may have here.
func (o op) run(ctx context.Context, e binding.Engine, k binding.Key) (r result, err error) {
	holder := name("h", o.holder)
	switch o.step {
	case "State":
		r.state, err = e.State(ctx, k, o.rebuild)
	case "Create":
		b := bound(k, name("s", o.sandbox))
		b.Token = name("t", o.token)
		r.ok, err = e.Create(ctx, b, o.fence)
	case "DeleteIfMatch":
		r.ok, err = e.DeleteIfMatch(ctx, k, "p", name("s", o.sandbox), o.fence)
	case "ReplaceToken":
		r.ok, err = e.ReplaceToken(ctx, k, "p", name("s", o.sandbox), name("t", o.token))
	case "MarkStale":
		var n int
		n, err = e.MarkStale(ctx, k.Tenant, "main")
		r.ok = n == 1
	case "Lock":
		r.fence, _, err = e.Lock(ctx, k, holder, o.lease)
	case "LockRewind":
		err = e.LockRewind(ctx, k, holder, o.lease)
	case "BeginTurn":
		r.state, err = e.BeginTurn(ctx, k, holder, o.lease, o.rebuild)
	case "Renew":
		r.ok, err = e.Renew(ctx, k, o.what, holder, o.lease)
	case "Release":
		err = e.Release(ctx, k, o.what, holder)
	case "AddWork":
		err = e.AddWork(ctx, k, binding.Work{ID: name("w", o.work), Kind: name("k", o.kind)}, o.lease, o.limit)
	case "RenewWork":
		r.ok, err = e.RenewWork(ctx, k, name("w", o.work), o.lease)
	case "RemoveWork":
		err = e.RemoveWork(ctx, k, name("w", o.work))
	case "Work":
		var list []binding.Work
		list, err = e.Work(ctx, k)
		for i := range r.work {
			r.work[i] = -1
			for _, w := range list {
				if w.ID == name("w", i) {
					_, _ = fmt.Sscanf(w.Kind, "k%d", &r.work[i])
				}
			}
		}
	}
	for _, known := range modelErrors {
		if errors.Is(err, known) {
			r.err, err = known, nil
		}
	}
	return r, err
}

// step reports whether a result is what the model says, and the model after it.
func (m model) step(k binding.Key, o op, got result) (bool, model) {
	m.expire()
	want := result{}
	until := m.now + o.lease.Milliseconds()
	lost := o.fence != 0 && (m.lock.holder == 0 || m.fence != o.fence)
	matches := m.bound && m.sandbox == o.sandbox
	switch o.step {
	case "State":
		want.state = m.resolve(k, o.rebuild)
	case "Create":
		switch {
		case lost:
			want.err = binding.ErrOwnershipLost
		case m.bound:
			want.ok = matches
		default:
			m.bound, m.sandbox, m.token, m.stale, want.ok = true, o.sandbox, o.token, 0, true
		}
	case "DeleteIfMatch":
		if lost {
			want.err = binding.ErrOwnershipLost
		} else if matches {
			m.bound, want.ok = false, true
		}
	case "ReplaceToken":
		if matches {
			m.token, want.ok = o.token, true
		}
	case "MarkStale":
		if m.bound && m.stale == 0 {
			m.stale, want.ok = m.now, true
		}
	case "Lock":
		switch m.lock.holder {
		case 0: // a fence larger than all before: which one is the engine's to say
			if got.fence <= m.fence {
				return false, m
			}
			m.fence = got.fence
			fallthrough
		case o.holder:
			m.lock, want.fence = modelLease{o.holder, until}, m.fence
		}
	case "LockRewind":
		switch {
		case m.rewind.holder != 0 && m.rewind.holder != o.holder:
			want.err = binding.ErrRewindLocked
		case m.open() > 0:
			want.err = binding.ErrTurnActive
		case m.live() > 0:
			want.err = binding.ErrWorkActive
		default:
			m.rewind = modelLease{o.holder, until}
		}
	case "BeginTurn":
		if m.rewind.holder != 0 {
			want.err = binding.ErrRewindLocked
			break
		}
		m.turns[o.holder-1] = until
		want.state = m.resolve(k, o.rebuild)
	case "Renew":
		want.ok = m.renew(o, until)
	case "Release":
		m.release(o)
	case "AddWork":
		want.err = m.addWork(o, until)
	case "RenewWork":
		if m.work[o.work].until != 0 {
			m.work[o.work].until, want.ok = until, true
		}
	case "RemoveWork":
		m.work[o.work].until = 0
	case "Work":
		for i, w := range m.work {
			want.work[i] = -1
			if w.until != 0 {
				want.work[i] = w.kind
			}
		}
	}
	return got == want, m
}

func (m *model) expire() {
	for _, l := range []*modelLease{&m.lock, &m.rewind} {
		if l.holder != 0 && l.until <= m.now {
			*l = modelLease{}
		}
	}
	for i, until := range m.turns {
		if until <= m.now {
			m.turns[i] = 0
		}
	}
	if m.open() == 0 {
		m.spent = false
	}
	for i, w := range m.work {
		if w.until <= m.now {
			m.work[i].until, m.work[i].kind = 0, 0
		}
	}
}

func (m *model) open() (n int) {
	for _, until := range m.turns {
		if until != 0 {
			n++
		}
	}
	return n
}

func (m *model) live() (n int) {
	for _, w := range m.work {
		if w.until != 0 {
			n++
		}
	}
	return n
}

func (m *model) resolve(k binding.Key, rebuild binding.Rebuild) binding.State {
	st := binding.State{Turns: m.open(), Work: m.live(), Spent: m.spent, Rewinding: m.rewind.holder != 0}
	if m.bound {
		st.Bound, st.Binding = true, bound(k, name("s", m.sandbox))
		st.Binding.Token = name("t", m.token)
		if m.stale != 0 {
			st.Binding.Stale = time.UnixMilli(m.stale).UTC()
		}
	}
	if rebuild == binding.Spend && st.Turns > 0 {
		m.spent = true
	}
	return st
}

func (m *model) renew(o op, until int64) bool {
	l := &m.lock
	switch o.what {
	case binding.LeaseTurn:
		if m.rewind.holder != 0 {
			return false
		}
		m.turns[o.holder-1] = until
		return true
	case binding.LeaseRewind:
		l = &m.rewind
	}
	if l.holder != o.holder {
		return false
	}
	l.until = until
	return true
}

func (m *model) release(o op) {
	switch {
	case o.what == binding.LeaseTurn:
		m.turns[o.holder-1] = 0
		if m.open() == 0 {
			m.spent = false
		}
	case o.what == binding.LeaseRewind && m.rewind.holder == o.holder:
		m.rewind = modelLease{}
	case o.what == binding.LeaseLifecycle && m.lock.holder == o.holder:
		m.lock = modelLease{}
	}
}

func (m *model) addWork(o op, until int64) error {
	if m.rewind.holder != 0 {
		return binding.ErrRewindLocked
	}
	kin := 0
	for i, w := range m.work {
		if i != o.work && w.until != 0 && w.kind == o.kind {
			kin++
		}
	}
	if kin >= o.limit {
		return binding.ErrWorkLimit
	}
	m.work[o.work].until, m.work[o.work].kind = until, o.kind
	return nil
}

// forever is a lease that does not end during a test.
const forever = time.Duration(math.MaxInt32) * time.Millisecond
