package memory

import (
	"context"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// session is what is known about one session.
type session struct {
	binding *binding.Binding // replaced, never changed
	lock    struct {
		lease
		fence binding.Fence
	}
	rewind lease
	turns  map[string]time.Time // holder to the end of its lease
	spent  bool                 // the open turn's rebuild
	work   map[string]binding.Work
}

// lease is held until a time; without a holder it is free.
type lease struct {
	holder string
	until  time.Time
}

// expire drops what has ended.
func (s *session) expire(now time.Time) {
	if s.lock.holder != "" && !now.Before(s.lock.until) {
		s.unlock()
	}
	if s.rewind.holder != "" && !now.Before(s.rewind.until) {
		s.rewind = lease{}
	}
	for holder, until := range s.turns {
		if !now.Before(until) {
			s.endTurn(holder)
		}
	}
	for id, w := range s.work {
		if !now.Before(w.Expires) {
			delete(s.work, id)
		}
	}
}

func (s *session) unlock() { s.lock.lease, s.lock.fence = lease{}, 0 }

func (s *session) endTurn(holder string) {
	delete(s.turns, holder)
	if len(s.turns) == 0 {
		s.spent = false
	}
}

func (s *session) empty() bool {
	return s.binding == nil && s.lock.holder == "" && s.rewind.holder == "" && len(s.turns) == 0 && len(s.work) == 0
}

func (s *session) resolve(rebuild binding.Rebuild) binding.State {
	st := binding.State{Turns: len(s.turns), Work: len(s.work), Spent: s.spent, Rewinding: s.rewind.holder != ""}
	if s.binding != nil {
		st.Binding, st.Bound = *s.binding, true
	}
	if rebuild == binding.Spend && len(s.turns) > 0 {
		s.spent = true
	}
	return st
}

// Lock implements binding.Engine.
func (e *Engine) Lock(_ context.Context, key binding.Key, holder string, lasts time.Duration) (fence binding.Fence, busy time.Duration, err error) {
	err = e.on(key, func(s *session, now time.Time) error {
		switch s.lock.holder {
		case holder:
		case "":
			e.fence++
			s.lock.fence = e.fence
		default:
			busy = s.lock.until.Sub(now)
			return nil
		}
		s.lock.lease = lease{holder, now.Add(lasts)}
		fence = s.lock.fence
		return nil
	})
	return fence, busy, err
}

// LockRewind implements binding.Engine.
func (e *Engine) LockRewind(_ context.Context, key binding.Key, holder string, lasts time.Duration) error {
	return e.on(key, func(s *session, now time.Time) error {
		switch {
		case s.rewind.holder != "" && s.rewind.holder != holder:
			return binding.ErrRewindLocked
		case len(s.turns) > 0:
			return binding.ErrTurnActive
		case len(s.work) > 0:
			return binding.ErrWorkActive
		}
		s.rewind = lease{holder, now.Add(lasts)}
		return nil
	})
}

// BeginTurn implements binding.Engine.
func (e *Engine) BeginTurn(_ context.Context, key binding.Key, holder string, lasts time.Duration, rebuild binding.Rebuild) (st binding.State, err error) {
	err = e.on(key, func(s *session, now time.Time) error {
		if !s.openTurn(holder, now.Add(lasts)) {
			return binding.ErrRewindLocked
		}
		st = s.resolve(rebuild)
		return nil
	})
	return st, err
}

func (s *session) openTurn(holder string, until time.Time) bool {
	if s.rewind.holder != "" {
		return false
	}
	if s.turns == nil {
		s.turns = make(map[string]time.Time)
	}
	s.turns[holder] = until
	return true
}

// Renew implements binding.Engine.
func (e *Engine) Renew(_ context.Context, key binding.Key, what binding.Lease, holder string, lasts time.Duration) (held bool, err error) {
	err = e.on(key, func(s *session, now time.Time) error {
		until := now.Add(lasts)
		switch what {
		case binding.LeaseLifecycle:
			held = s.lock.extend(holder, until)
		case binding.LeaseRewind:
			held = s.rewind.extend(holder, until)
		case binding.LeaseTurn:
			held = s.openTurn(holder, until)
		}
		return nil
	})
	return held, err
}

func (l *lease) extend(holder string, until time.Time) bool {
	if l.holder != holder {
		return false
	}
	l.until = until
	return true
}

// Release implements binding.Engine.
func (e *Engine) Release(_ context.Context, key binding.Key, what binding.Lease, holder string) error {
	return e.on(key, func(s *session, _ time.Time) error {
		switch {
		case what == binding.LeaseLifecycle && s.lock.holder == holder:
			s.unlock()
		case what == binding.LeaseRewind && s.rewind.holder == holder:
			s.rewind = lease{}
		case what == binding.LeaseTurn:
			s.endTurn(holder)
		}
		return nil
	})
}

// AddWork implements binding.Engine.
func (e *Engine) AddWork(_ context.Context, key binding.Key, w binding.Work, lasts time.Duration, limit int) error {
	return e.on(key, func(s *session, now time.Time) error {
		if s.rewind.holder != "" {
			return binding.ErrRewindLocked
		}
		others, kin := 0, 0
		for id, x := range s.work {
			if id == w.ID {
				continue
			}
			others++
			if x.Kind == w.Kind {
				kin++
			}
		}
		if kin >= limit || others >= binding.MaxWork {
			return binding.ErrWorkLimit
		}
		if s.work == nil {
			s.work = make(map[string]binding.Work)
		}
		w.Expires = now.Add(lasts)
		s.work[w.ID] = w
		return nil
	})
}

// RenewWork implements binding.Engine.
func (e *Engine) RenewWork(_ context.Context, key binding.Key, id string, lasts time.Duration) (live bool, err error) {
	err = e.on(key, func(s *session, now time.Time) error {
		w, ok := s.work[id]
		if live = ok; ok {
			w.Expires = now.Add(lasts)
			s.work[id] = w
		}
		return nil
	})
	return live, err
}

// RemoveWork implements binding.Engine.
func (e *Engine) RemoveWork(_ context.Context, key binding.Key, id string) error {
	return e.on(key, func(s *session, _ time.Time) error {
		delete(s.work, id)
		return nil
	})
}

// Work implements binding.Engine.
func (e *Engine) Work(_ context.Context, key binding.Key) (list []binding.Work, err error) {
	err = e.on(key, func(s *session, _ time.Time) error {
		for _, w := range s.work {
			list = append(list, w)
		}
		slices.SortFunc(list, byID)
		return nil
	})
	return list, err
}
