package minted

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
)

// restore is what a run does that names a session which vanished.
func restore(ctx context.Context, s *Sessions, owner session.Owner, id string) (bool, error) {
	t, err := s.Home(ctx, owner, id)
	if err != nil {
		return false, err
	}
	x, made, err := s.Restore(ctx, owner, t, id, session.CreateOptions{Origin: session.OriginExec})
	if err != nil {
		t.Release()
		return false, err
	}
	x.Release()
	if x.ID != id || x.Sandbox.Metadata.Session != id {
		return made, errors.New("another session came back")
	}
	return made, nil
}

// The criterion over HTTP: sandboxes deleted behind our back are replaced
// once each, however many miss them at once on both replicas.
func TestVanishedSessionsAreRestoredOnce(t *testing.T) {
	for _, config := range []string{"main", "other"} {
		t.Run(config, func(t *testing.T) {
			s, d, _ := setup(t)
			replicas := []*Sessions{s, d.sessions(t, d.engine, true)}
			const sessions, uses = 10, 100
			var ids []string
			for range sessions {
				ids = append(ids, create(t, s, alice, config, session.CreateOptions{}))
			}
			for _, sb := range d.providers[config].Live() {
				d.providers[config].Vanish(sb.ID)
			}
			var mu sync.Mutex
			made := make(map[string]int)
			var wg sync.WaitGroup
			for i := range uses {
				wg.Go(func() {
					id := ids[i%sessions]
					m, err := restore(t.Context(), replicas[i/sessions%2], alice, id)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					if m {
						made[id]++
					}
				})
			}
			wg.Wait()
			if n := len(d.providers[config].Live()); n != sessions {
				t.Errorf("%d sandboxes live, want %d", n, sessions)
			}
			for _, id := range ids {
				if made[id] != 1 {
					t.Errorf("session %s was made %d times", id, made[id])
				}
			}
		})
	}
}

func TestRestoreIsForOwners(t *testing.T) {
	s, d, _ := setup(t)
	id := create(t, s, alice, "main", session.CreateOptions{})
	if _, err := restore(t.Context(), s, mallory, id); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a stranger's Restore of a live session = %v", err)
	}
	if t1, err := s.Home(t.Context(), mallory, id); !errors.Is(err, session.ErrNotFound) {
		t1.Release()
		t.Errorf("a stranger's Home of a live session = %v", err)
	}
	for _, bad := range []string{"", "AAAAAAAAAAAAAAAAAAAAA", "x"} {
		if _, err := s.Home(t.Context(), alice, bad); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Home(%q) = %v", bad, err)
		}
	}
	// Doubt is not absence.
	d.providers["main"].Vanish(id)
	d.providers["main"].Before = func(_ context.Context, op, _ string) error {
		if op == "Get" {
			return account.Down()
		}
		return nil
	}
	if _, err := restore(t.Context(), s, alice, id); backend.KindOf(err) != backend.KindUnavailable || len(d.providers["main"].Made()) != 1 {
		t.Errorf("Restore with the provider down = %v, %d made", err, len(d.providers["main"].Made()))
	}
}

// Bindings of providers that name sandboxes themselves are made, followed, and made
// again when the store was emptied; named ones need none.
func TestBindings(t *testing.T) {
	s, d, _ := setup(t)
	p := d.providers["other"]
	create(t, s, alice, "main", session.CreateOptions{})
	id := create(t, s, alice, "other", session.CreateOptions{})
	count := func() (n int) {
		for range s.o.Store.All(t.Context(), binding.Filter{}) {
			n++
		}
		return n
	}
	if count() != 1 {
		t.Errorf("%d bindings, want that of the nameless provider", count())
	}
	look := func(s *Sessions) {
		t.Helper()
		x, err := s.Lookup(t.Context(), alice, id)
		if err != nil {
			t.Fatal(err)
		}
		x.Release()
	}
	look(s)
	if p.Count("List") != 0 {
		t.Error("a bound session was looked for in a listing")
	}
	s = d.sessions(t, memory.NewEngine(memory.Options{}), false)
	look(s)
	look(s)
	if n := p.Count("List"); n != 1 {
		t.Errorf("the provider was listed %d times, want once", n)
	}
	// A binding to a sandbox that is gone does not survive the proof.
	p.Vanish(only(t, p).ID)
	if _, err := s.Lookup(t.Context(), alice, id); !errors.Is(err, session.ErrNotFound) || count() != 0 {
		t.Errorf("Lookup = %v, %d bindings", err, count())
	}
	id = create(t, s, alice, "other", session.CreateOptions{})
	if err := s.End(t.Context(), alice, id); err != nil || count() != 0 {
		t.Errorf("End = %v, %d bindings", err, count())
	}
}

func TestRunsWaitForThoseOnOtherReplicas(t *testing.T) {
	_, d, clock := setup(t)
	a, b := d.sessions(t, d.engine, true), d.sessions(t, d.engine, true)
	id := create(t, a, alice, "main", session.CreateOptions{})
	release, err := a.Hold(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Hold(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other replica's Hold = %v", err)
	}
	clock.Advance(48 * time.Hour)
	if r, err := b.Sweep(t.Context()); err != nil || r.Ended != 0 {
		t.Errorf("the other replica's sweep ended a session in use: %+v, %v", r, err)
	}
	release()
	if release, err = b.Hold(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	release()
	if r, err := b.Sweep(t.Context()); err != nil || r.Ended != 1 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
}

func TestSessionWithAClockOfItsOwn(t *testing.T) {
	s, _, clock := setup(t)
	create(t, s, alice, "main", session.CreateOptions{Origin: session.OriginStart, TTL: 3 * time.Hour})
	clock.Advance(2 * time.Hour) // idle for longer than others may be
	if r, err := s.Sweep(t.Context()); err != nil || r.Ended != 0 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
	clock.Advance(2 * time.Hour)
	if r, err := s.Sweep(t.Context()); err != nil || r.Ended != 1 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
}

func TestManagedSandboxesAreNotSwept(t *testing.T) {
	s, d, clock := setup(t)
	create(t, s, alice, "main", session.CreateOptions{})
	d.providers["main"].Change(only(t, d.providers["main"]).ID, func(sb *backend.Sandbox) {
		sb.Metadata.Labels = map[string]string{session.LabelSession: "chat"}
	})
	clock.Advance(1000 * time.Hour)
	if r, err := s.Sweep(t.Context()); err != nil || r != (SweepReport{Managed: 1}) {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
}

// Neither a wall clock that is set nor a machine that sleeps makes a session look
// older than it is, and neither keeps it for ever.
func TestSteadyClock(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wall, counted := start, time.Duration(0)
	c := &steady{
		wall: func() time.Time { return wall }, counted: func() time.Duration { return counted },
		patience: time.Hour, base: start,
	}
	pass := func(d time.Duration) { wall = wall.Add(d); counted += d }
	age := func(stamp time.Time) time.Duration { return c.now().Sub(stamp) }
	pass(10 * time.Minute)
	if got := age(start); got != 10*time.Minute {
		t.Errorf("age = %v", got)
	}
	wall = wall.Add(5 * time.Hour) // set forward
	if got := age(start); got != 10*time.Minute {
		t.Errorf("after the clock was set forward: age = %v", got)
	}
	pass(30 * time.Minute)
	if got := age(start); got != 40*time.Minute {
		t.Errorf("after the clock was set forward: age = %v", got)
	}
	pass(31 * time.Minute) // the difference has lasted an hour
	if got := age(wall.Add(-time.Minute)); got != time.Minute {
		t.Errorf("the new time was not accepted: age = %v", got)
	}
	stamp := wall
	wall = wall.Add(-3 * time.Hour) // set back
	if got := age(wall); got != 0 {
		t.Errorf("after the clock was set back: a new session's age = %v", got)
	}
	if got := age(stamp); got > 0 {
		t.Errorf("after the clock was set back: an old session's age = %v", got)
	}
}
