package bindingtest

import (
	"context"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

func (s *suite) state(t *testing.T, k binding.Key, rebuild binding.Rebuild) binding.State {
	t.Helper()
	st, err := s.b.State(t.Context(), k, rebuild)
	noErr(t, "State", err)
	return st
}

func (s *suite) begin(t *testing.T, k binding.Key, rebuild binding.Rebuild) (*binding.Turn, binding.State) {
	t.Helper()
	turn, st, err := s.a.BeginTurn(t.Context(), k, rebuild)
	noErr(t, "BeginTurn", err)
	return turn, st
}

func testTurns(t *testing.T, s *suite) {
	if st := s.state(t, key, binding.Keep); st.Busy() || st.Turns != 0 || !st.MayRebuild() {
		t.Errorf("without a turn: %+v", st)
	}
	s.create(t, bound(key, "one"), true)
	one, st := s.begin(t, key, binding.Keep)
	if st.Turns != 1 || !st.Bound || st.Binding != bound(key, "one") || !st.MayRebuild() {
		t.Errorf("first turn: %+v", st)
	}
	two, st := s.begin(t, key, binding.Keep)
	if st.Turns != 2 {
		t.Errorf("second turn: %+v", st)
	}
	one.End()
	if st := s.state(t, key, binding.Keep); st.Turns != 1 || !st.Busy() {
		t.Errorf("after one end: %+v", st)
	}
	two.End()
	if st := s.state(t, key, binding.Keep); st.Turns != 0 || st.Busy() {
		t.Errorf("after both ends: %+v", st)
	}
}

// A turn is closed by its own end only, also when the caller's request is over.
func testTurnsEndOnce(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	one, _, err := s.a.BeginTurn(ctx, key, binding.Keep)
	noErr(t, "BeginTurn", err)
	two, _ := s.begin(t, key, binding.Keep)
	defer two.End()
	cancel()
	for range 3 {
		one.End()
	}
	if st := s.state(t, key, binding.Keep); st.Turns != 1 {
		t.Errorf("one turn ended three times leaves %d, want 1", st.Turns)
	}
}

func testTurnsDead(t *testing.T, s *suite) {
	_, err := s.Replicas[0].BeginTurn(t.Context(), key, "the dead", lease, binding.Spend)
	noErr(t, "BeginTurn", err)
	s.Advance(lease / 2)
	if held, err := s.Replicas[0].Renew(t.Context(), key, binding.LeaseTurn, "the dead", lease); err != nil || !held {
		t.Fatalf("Renew = %v, %v", held, err)
	}
	s.Advance(lease - time.Second)
	if st := s.state(t, key, binding.Keep); st.Turns != 1 || !st.Spent {
		t.Errorf("before the end of the lease: %+v", st)
	}
	s.Advance(time.Second)
	if st := s.state(t, key, binding.Keep); st.Turns != 0 || !st.MayRebuild() {
		t.Errorf("after the lease: %+v", st)
	}
	// The next turn is a new one, with a rebuild of its own.
	turn, st := s.begin(t, key, binding.Keep)
	defer turn.End()
	if st.Turns != 1 || st.Spent {
		t.Errorf("the next turn: %+v", st)
	}
}

func testRebuild(t *testing.T, s *suite) {
	one, st := s.begin(t, key, binding.Spend)
	if !st.MayRebuild() {
		t.Errorf("the first resolve of a turn may not rebuild: %+v", st)
	}
	for _, st := range []binding.State{s.state(t, key, binding.Keep), s.state(t, key, binding.Spend)} {
		if st.MayRebuild() || !st.Spent {
			t.Errorf("a later resolve may rebuild: %+v", st)
		}
	}
	two, st := s.begin(t, key, binding.Spend) // joins the open turn
	if st.MayRebuild() {
		t.Errorf("a hold that joins may rebuild: %+v", st)
	}
	one.End()
	if st := s.state(t, key, binding.Keep); st.MayRebuild() {
		t.Errorf("the turn is still open and may rebuild: %+v", st)
	}
	two.End()
	three, st := s.begin(t, key, binding.Keep)
	defer three.End()
	if !st.MayRebuild() {
		t.Errorf("the next turn may not rebuild: %+v", st)
	}
	if st := s.state(t, key, binding.Spend); !st.MayRebuild() {
		t.Errorf("its first resolve may not rebuild: %+v", st)
	}
	if st := s.state(t, key, binding.Spend); st.MayRebuild() {
		t.Errorf("its second resolve may rebuild: %+v", st)
	}
	// Without a turn there is nothing to spend.
	k := binding.Key{Tenant: "acme", Session: "quiet"}
	for range 2 {
		if st := s.state(t, k, binding.Spend); !st.MayRebuild() || st.Spent {
			t.Errorf("without a turn: %+v", st)
		}
	}
	// Under live work nobody may.
	noErr(t, "AddWork", s.a.AddWork(t.Context(), k, binding.Work{ID: "j", Kind: "job"}, time.Minute, 1))
	if st := s.state(t, k, binding.Keep); st.MayRebuild() || !st.Busy() || st.Work != 1 {
		t.Errorf("under live work: %+v", st)
	}
	turn, st := s.begin(t, k, binding.Spend)
	defer turn.End()
	if st.MayRebuild() {
		t.Errorf("a turn under live work may rebuild: %+v", st)
	}
}

func testRewind(t *testing.T, s *suite) {
	turn, _ := s.begin(t, key, binding.Keep)
	_, err := s.b.LockRewind(t.Context(), key)
	wantErr(t, "LockRewind in a turn", err, binding.ErrTurnActive)
	turn.End()
	noErr(t, "AddWork", s.a.AddWork(t.Context(), key, binding.Work{ID: "j", Kind: "job"}, time.Minute, 1))
	_, err = s.b.LockRewind(t.Context(), key)
	wantErr(t, "LockRewind under work", err, binding.ErrWorkActive)
	noErr(t, "RemoveWork", s.a.RemoveWork(t.Context(), key, "j"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := s.b.LockRewind(ctx, key)
	noErr(t, "LockRewind", err)
	for _, st := range []*binding.Store{s.a, s.b} {
		_, err = st.LockRewind(t.Context(), key)
		wantErr(t, "second LockRewind", err, binding.ErrRewindLocked)
		_, _, err = st.BeginTurn(t.Context(), key, binding.Keep)
		wantErr(t, "BeginTurn", err, binding.ErrRewindLocked)
		wantErr(t, "AddWork", st.AddWork(t.Context(), key, binding.Work{ID: "j", Kind: "job"}, time.Minute, 1), binding.ErrRewindLocked)
	}
	if st := s.state(t, key, binding.Keep); !st.Rewinding || st.MayRebuild() {
		t.Errorf("during a rewind: %+v", st)
	}
	noErr(t, "the rewind's context", r.Context().Err())
	r.Unlock()
	r.Unlock()
	if r.Context().Err() == nil {
		t.Error("the rewind's context outlives the lock")
	}
	again, err := s.a.LockRewind(t.Context(), key)
	noErr(t, "LockRewind after Unlock", err)
	r.Unlock() // another's lock by now
	if st := s.state(t, key, binding.Keep); !st.Rewinding {
		t.Error("an old Unlock ended a new rewind")
	}
	again.Unlock()
	turn, _ = s.begin(t, key, binding.Keep)
	turn.End()
}

func testRewindLost(t *testing.T, s *suite) {
	short := store(t, s.Replicas[0], binding.Options{Lease: 300 * time.Millisecond})
	r, err := short.LockRewind(t.Context(), key)
	noErr(t, "LockRewind", err)
	defer r.Unlock()
	s.Advance(time.Minute)
	turn, _ := s.begin(t, key, binding.Keep) // it is free by now
	defer turn.End()
	<-r.Context().Done() // and its holder learns of it
	wantErr(t, "cause", context.Cause(r.Context()), binding.ErrOwnershipLost)
}
