package minted

import (
	"context"
	"sync"

	"github.com/caisson-run/caisson/host/session"
)

// lanes serialise the runs of one session, first come first served. A lane
// exists only while somebody holds or waits for it.
type lanes struct {
	max int

	mu sync.Mutex
	m  map[string]*lane
}

type lane struct {
	turn chan struct{} // holds one token while nobody has the turn
	refs int
}

// Hold takes a session's turn and returns how to give it back. It returns
// ErrBusy at once when too many wait already, and ctx's error when ctx ends
// first. Runs of one session see each other's files; holding the turn is what
// keeps their changes apart. Within this process turns go to who asked first; where
// replicas share the store, one of them at a time has a session's turn, in no order.
func (s *Sessions) Hold(ctx context.Context, id string) (release func(), err error) {
	l, err := s.lanes.join(id, s.lanes.max+1)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.turn:
	case <-ctx.Done():
		s.lanes.leave(id, l)
		return nil, ctx.Err()
	}
	give := func() {
		l.turn <- struct{}{}
		s.lanes.leave(id, l)
	}
	if s.o.Shared {
		end, err := s.claim(ctx, id)
		if err != nil {
			give()
			return nil, err
		}
		return sync.OnceFunc(func() { end(); give() }), nil
	}
	return sync.OnceFunc(give), nil
}

// tryHold takes a session's turn only if nobody has or wants it.
func (s *Sessions) tryHold(id string) (release func(), ok bool) {
	l, err := s.lanes.join(id, 1)
	if err != nil {
		return nil, false
	}
	select {
	case <-l.turn:
	default: // somebody came meanwhile
		s.lanes.leave(id, l)
		return nil, false
	}
	return func() {
		l.turn <- struct{}{}
		s.lanes.leave(id, l)
	}, true
}

func (ls *lanes) join(id string, max int) (*lane, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[id]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		if ls.m == nil {
			ls.m = make(map[string]*lane)
		}
		ls.m[id] = l
	}
	if l.refs >= max {
		return nil, session.ErrBusy
	}
	l.refs++
	return l, nil
}

func (ls *lanes) leave(id string, l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(ls.m, id)
	}
}
