package host

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A swap waits for the calls in flight and for nothing else: a terminal and a
// suspended program stay where they are, and the version that serves them lives as
// long as they do.
func TestTerminalsAndSuspendedProgramsStay(t *testing.T) {
	k := openKeepers(t)
	m := k.managed()
	if got := runIn(t, m, "chat"); got != "1.2.3: " {
		t.Fatalf("it printed %q", got)
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

// managed keeps sessions that a platform names.
func (k keepers) managed() *session.Manager {
	k.t.Helper()
	resolver, err := k.h.Managed()
	if err != nil {
		k.t.Fatal(err)
	}
	m, err := resolver.Resolve(k.t.Context(), "acme", "")
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// runIn runs a program in a session and returns what it printed: the version first.
func runIn(t *testing.T, m *session.Manager, id string) string {
	t.Helper()
	live := &printed{}
	_, err := m.Run(t.Context(), id, backend.RunSpec{
		RunID: "r", Program: backend.Program{File: "main"}, Steps: []backend.Step{{Name: "run", Argv: []string{"x"}}},
	}, live)
	if err != nil {
		t.Fatal(err)
	}
	return live.out
}

// A session keeps its sandbox where the next version cannot serve it: nobody replaces
// it, and no sweep takes it for one that is gone or forgotten.
func TestSessionsKeepTheirSandboxes(t *testing.T) {
	k := openKeepers(t)
	m := k.managed()
	runIn(t, m, "chat")
	before, err := m.Bound(t.Context(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8"), Watch: -1}, SwapDone)
	for range 2 {
		if got := runIn(t, m, "chat"); got != "1.2.3: " {
			t.Errorf("it ran where it printed %q", got)
		}
		if got := runIn(t, m, "another"); got != "2.0.0: " {
			t.Errorf("a new session ran where it printed %q", got)
		}
		r, err := k.h.Sweep(t.Context())
		if err != nil || r.Sandboxes.Bound != 2 || r.Sandboxes.Reaped+r.Sandboxes.Unbound != 0 {
			t.Errorf("the sweep did %+v, %v", r, err)
		}
	}
	if got, want := metrics(k.h.Telemetry()), "caisson_sessions 2\n"; !strings.Contains(got, want) {
		t.Errorf("the metrics lack %q:\n%s", want, got)
	}
	if after, err := m.Bound(t.Context(), "chat"); err != nil || after != before {
		t.Errorf("the session has sandbox %q, had %q: %v", after, before, err)
	}
	if err := m.Destroy(t.Context(), "chat"); err != nil {
		t.Fatal(err)
	}
	k.eventually("the old version ends", func() bool { return len(k.h.Plugins()) == 1 })
	if got := runIn(t, m, "chat"); got != "2.0.0: " {
		t.Errorf("a session that was made anew ran where it printed %q", got)
	}
}

// After a restart the installed version is alone. What it does not serve it neither
// takes over nor sweeps, also where it shows it, and the version before is there for it
// again once it has served again.
func TestRestartLeavesAloneWhatIsNotServed(t *testing.T) {
	for _, shows := range []bool{false, true} {
		k := openKeepers(t)
		runIn(t, k.managed(), "chat")
		runIn(t, k.managed(), "used")
		before, err := k.managed().Bound(t.Context(), "chat")
		if err != nil {
			t.Fatal(err)
		}
		if err := k.h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		k.install("fake", strings.NewReplacer("1.2.3", "2.0.0", `["7"]`, `["8"]`).Replace(withCaps(fakeManifest)), nil, 0)
		k.instruct(script{Name: "fake", Version: "2.0.0", StateSchema: []string{"8"}, Capabilities: keeperCaps, Keeps: true, ShowsAll: shows})
		o := k.options()
		o.Sessions.Grace = time.Nanosecond
		k.h = k.openWith(o)
		for range 3 {
			r, err := k.h.Sweep(t.Context())
			if err != nil || r.Sandboxes.Reaped+r.Sandboxes.Adopted+r.Sessions.Ended != 0 {
				t.Errorf("the sweep did %+v, %v", r, err)
			}
		}
		if got, err := k.h.AllSessions(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("it shows %+v, %v", got, err)
		}
		if shows {
			continue
		}
		for _, id := range []string{"young", "used"} {
			if got := runIn(t, k.managed(), id); got != "2.0.0: " {
				t.Errorf("%s ran where it printed %q", id, got)
			}
		}

		// An operator brings the version before back for what it has.
		k.instruct(script{})
		swap(t, k.h, SwapOptions{Dir: k.next("1.2.3", "7"), Watch: -1}, SwapDone)
		swap(t, k.h, SwapOptions{Dir: k.next("2.0.0", "8"), Watch: -1}, SwapDone)
		for id, want := range map[string]string{"chat": "1.2.3: ", "young": "2.0.0: "} {
			if got := runIn(t, k.managed(), id); got != want {
				t.Errorf("%s ran where it printed %q, want %q", id, got, want)
			}
		}
		if after, err := k.managed().Bound(t.Context(), "chat"); err != nil || after != before {
			t.Errorf("the session has sandbox %q, had %q: %v", after, before, err)
		}
	}
}
