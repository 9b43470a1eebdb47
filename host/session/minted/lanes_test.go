package minted

import (
	"errors"
	"testing"

	"github.com/caisson-run/caisson/host/session"
)

// TestTryHoldWaitsForNobody: whoever comes between its place in the lane and the turn has
// the turn.
func TestTryHoldWaitsForNobody(t *testing.T) {
	s := &Sessions{}
	l, err := s.lanes.join("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.tryHold("a"); ok {
		t.Error("a turn that somebody waits for")
	}
	<-l.turn
	l.refs = 0 // as if it had come later
	if _, ok := s.tryHold("a"); ok {
		t.Error("a turn that somebody has")
	}
	if len(s.lanes.m) != 0 {
		t.Error("a lane is left")
	}
	release, ok := s.tryHold("a")
	if !ok {
		t.Fatal("a free turn was not given")
	}
	if _, err := s.lanes.join("a", 1); !errors.Is(err, session.ErrBusy) {
		t.Errorf("beside it: %v", err)
	}
	release()
}
