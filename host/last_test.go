package host

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// A swap waits for the calls in flight and for nothing else: a terminal and a
// suspended program stay where they are, and the version that serves them lives as
// long as they do.
func TestTerminalsAndSuspendedProgramsStay(t *testing.T) {
	k := openKeepers(t)
	resolver, err := k.h.Managed()
	if err != nil {
		t.Fatal(err)
	}
	m, err := resolver.Resolve(t.Context(), "acme", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context(), "chat", backend.RunSpec{
		RunID: "r", Program: backend.Program{File: "main"}, Steps: []backend.Step{{Name: "run", Argv: []string{"x"}}},
	}, &printed{}); err != nil {
		t.Fatal(err)
	}
	term, err := m.Terminal(t.Context(), "chat", backend.TerminalSpec{}, false)
	if err != nil {
		t.Fatal(err)
	}
	expectRead(t, term, "1.2.3")
	suspended := k.target()
	suspended.Lasts()
	suspended.Lasts() // again is once
	call := k.target()

	old, _ := k.h.backends.line("fake").program().sup.Now()
	reported := make(chan SwapReport)
	go func() {
		r, err := k.h.SwapPlugin(context.Background(), "fake", SwapOptions{Dir: k.next("2.0.0", "7"), Watch: -1})
		if err != nil {
			t.Error(err)
		}
		reported <- r
	}()
	k.eventually("the next version serves", func() bool { return k.h.backends.line("fake").program().found.m.Version == "2.0.0" })
	const longest = 200 * time.Millisecond
	time.AfterFunc(longest, call.Release) // the call ends that long after the switch
	r := <-reported
	if r.Outcome != SwapDone || r.InFlight != 2 {
		t.Errorf("report %+v, want 2 held", r)
	}
	t.Logf("drained %v after the last call ended", r.Drain-longest)
	if r.Drain > longest+drainReport/2 {
		t.Errorf("it waited %v for what may last", r.Drain)
	}
	if _, err := term.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	expectRead(t, term, "still here")
	if sb, err := suspended.Backend.Get(t.Context(), boxRef("nobody")); !backend.ProvesGone(err) {
		t.Errorf("the suspended program's version: %+v, %v", sb, err)
	}
	if !old.Serving() {
		t.Error("the old version ended before what it serves")
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	suspended.Release()
	suspended.Lasts() // too late is nothing
	k.eventually("the old version ends", func() bool { return !old.Serving() && len(k.h.backends.line("fake").slot.Uses()) == 1 })
}

func expectRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}
