package binding

import (
	"context"
	"time"
)

// Turn is one hold of a session's open turn. It is renewed until End.
type Turn struct{ hold *hold }

// BeginTurn opens a turn, or joins the open one, and reads the session in the same
// step, as [Store.State] does. During a rewind it is ErrRewindLocked. The turn of a
// process that dies ends with its lease.
func (s *Store) BeginTurn(ctx context.Context, key Key, rebuild Rebuild) (*Turn, State, error) {
	if err := key.Validate(); err != nil {
		return nil, State{}, err
	}
	holder, asked := holderID(), time.Now()
	st, err := ask(ctx, s, "begin turn", func(ctx context.Context) (State, error) {
		return s.engine.BeginTurn(ctx, key, holder, s.o.Lease, rebuild)
	})
	if err != nil {
		return nil, State{}, err
	}
	h, err := s.hold(context.WithoutCancel(ctx), key, LeaseTurn, holder, asked)
	if err != nil {
		return nil, State{}, err
	}
	return &Turn{h}, st, nil
}

// End closes this hold and no other; the last one closes the turn. It takes at most
// one step and never fails the caller. Further calls do nothing.
func (t *Turn) End() { t.hold.release() }

// Rewind is a session's rewind lock. It is renewed until Unlock.
type Rewind struct{ hold *hold }

// LockRewind keeps turns and background work out of a session while its files are set
// back. It is ErrTurnActive, ErrWorkActive or ErrRewindLocked where one is in the way.
func (s *Store) LockRewind(ctx context.Context, key Key) (*Rewind, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	holder, asked := holderID(), time.Now()
	_, err := ask(ctx, s, "lock rewind", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.engine.LockRewind(ctx, key, holder, s.o.Lease)
	})
	if err != nil {
		return nil, err
	}
	h, err := s.hold(ctx, key, LeaseRewind, holder, asked)
	if err != nil {
		return nil, err
	}
	return &Rewind{h}, nil
}

// Context is the caller's and ends, with ErrOwnershipLost as its cause, when the lock
// is lost. The rewind runs on it.
func (r *Rewind) Context() context.Context { return r.hold.ctx }

// Unlock lets turns in again. Further calls do nothing.
func (r *Rewind) Unlock() { r.hold.release() }
