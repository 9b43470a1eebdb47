package minted

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestSessionIsFoundOnEveryKindOfProvider(t *testing.T) {
	for _, config := range []string{"main", "other"} {
		t.Run(config, func(t *testing.T) {
			s, d, _ := setup(t)
			id := create(t, s, alice, config, session.CreateOptions{Origin: session.OriginExec, Labels: map[string]string{"k": "v"}})
			x, err := s.Lookup(t.Context(), alice, id)
			if err != nil {
				t.Fatal(err)
			}
			x.Release()
			want := backend.Metadata{Deployment: "test", Config: config, Session: id, Tenant: "acme", User: "alice", Origin: "exec"}
			got := x.Sandbox.Metadata
			if got.Labels["k"] != "v" {
				t.Errorf("labels = %v", got.Labels)
			}
			got.Labels = nil
			if x.Config != config || got.Deployment != want.Deployment || got.Session != want.Session || got.Tenant != want.Tenant || got.User != want.User || got.Origin != want.Origin || got.Config != want.Config {
				t.Errorf("metadata = %+v, want %+v", got, want)
			}
			if d.providers[config].Count("woken") != 0 {
				t.Error("a lookup woke the sandbox")
			}
		})
	}
}

func TestOwnership(t *testing.T) {
	s, _, _ := setup(t)
	ofAlice := create(t, s, alice, "main", session.CreateOptions{Origin: session.OriginExec})
	ofKey := create(t, s, keyed, "main", session.CreateOptions{Origin: session.OriginExec, Labels: map[string]string{labelKey: "forged"}})
	underKey := create(t, s, session.Owner{Tenant: "acme", KeyID: "k1"}, "main", session.CreateOptions{Origin: session.OriginUpload})
	for _, c := range []struct {
		name  string
		owner session.Owner
		id    string
		found bool
	}{
		{"own", alice, ofAlice, true},
		{"colleague", session.Owner{Tenant: "acme", User: "bob"}, ofAlice, true},
		{"other tenant", mallory, ofAlice, false},
		{"no tenant", session.Owner{}, ofAlice, false},
		{"service key, session of a bearer", keyed, ofAlice, false},
		{"service key, own", keyed, ofKey, true},
		{"service key, session of a bearer under that key", keyed, underKey, true},
		{"another service key", session.Owner{Tenant: "brand2", KeyID: "k2"}, ofKey, false},
		{"a forged label does not help", session.Owner{Tenant: "evil", KeyID: "forged"}, ofKey, false},
		{"bearer only, session of the brand", alice, ofKey, false},
	} {
		x, err := s.Lookup(t.Context(), c.owner, c.id)
		if (err == nil) != c.found || (err != nil && !errors.Is(err, session.ErrNotFound)) {
			t.Errorf("%s: err = %v, want found %v", c.name, err, c.found)
		}
		if err == nil {
			x.Release()
		}
	}
}

func TestUnissuedIDsAskNobody(t *testing.T) {
	s, d, _ := setup(t)
	for _, p := range d.providers {
		p.Before = func(_ context.Context, op, _ string) error { t.Errorf("the provider was asked: %s", op); return nil }
	}
	for _, id := range []string{"", "../../etc/passwd", "m_aaaaaaaaaaaaaaaaaaaaaaaa", strings.Repeat("A", 21)} {
		if _, err := s.Lookup(t.Context(), alice, id); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Lookup(%q) = %v, want ErrNotFound", id, err)
		}
	}
}

func TestProviderThatIgnoresTheFilterIsNotBelieved(t *testing.T) {
	s, d, _ := setup(t)
	create(t, s, mallory, "other", session.CreateOptions{Origin: session.OriginExec})
	id := create(t, s, alice, "other", session.CreateOptions{Origin: session.OriginExec})
	p := d.providers["other"]
	p.Careless = true
	x, err := s.Lookup(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	x.Release()
	if x.Sandbox.Metadata.Session != id {
		t.Errorf("adopted sandbox of session %s", x.Sandbox.Metadata.Session)
	}
	list, err := s.List(t.Context(), "acme")
	if err != nil || len(list) != 1 || list[0].Metadata.Session != id {
		t.Errorf("List = %v, %v; want alice's only", list, err)
	}
}

// Doubt is not absence: an unreachable provider must not make a caller believe
// that the session is gone.
func TestDoubtIsNotAbsence(t *testing.T) {
	for _, config := range []string{"main", "other"} {
		s, d, _ := setup(t)
		id := create(t, s, alice, config, session.CreateOptions{Origin: session.OriginExec})
		for _, fault := range []error{
			&backend.Error{Kind: backend.KindUnavailable},
			&backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSandbox, Plane: backend.PlaneData},
			&backend.Error{Kind: backend.KindAuthentication},
			context.DeadlineExceeded,
		} {
			d.providers[config].Before = func(context.Context, string, string) error { return fault }
			_, err := s.Lookup(t.Context(), alice, id)
			if err == nil || errors.Is(err, session.ErrNotFound) || !errors.Is(err, fault) {
				t.Errorf("%s: Lookup with %v = %v", config, fault, err)
			}
		}
	}
}

func TestOpenWakesAndReportsTheGone(t *testing.T) {
	s, d, _ := setup(t)
	p := d.providers["main"]
	id := create(t, s, alice, "main", session.CreateOptions{Origin: session.OriginExec})
	p.Change(id, func(sb *backend.Sandbox) { sb.State = backend.StatePaused })
	x, err := s.Open(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	x.Release()
	if x.Sandbox.State != backend.StateRunning || p.Count("woken") != 1 {
		t.Errorf("state %s, woken %d times", x.Sandbox.State, p.Count("woken"))
	}
	p.Before = func(_ context.Context, op, _ string) error {
		if op == "Connect" {
			return account.Gone()
		}
		return nil
	}
	if _, err := s.Open(t.Context(), alice, id); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Open of a sandbox that just went = %v, want ErrNotFound", err)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	for _, config := range []string{"main", "other"} {
		s, d, _ := setup(t)
		p := d.providers[config]
		ctx, cancel := context.WithCancel(t.Context())
		// The provider makes the sandbox, and the answer is lost.
		p.After = func(_ context.Context, op, _ string) error {
			if op != "Create" {
				return nil
			}
			cancel()
			return context.Canceled
		}
		target, err := d.Named(ctx, "", config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(ctx, alice, target, session.CreateOptions{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v", err)
		}
		target.Release()
		if n := len(p.Live()); n != 0 {
			t.Errorf("%s: %d sandboxes are left behind", config, n)
		}
	}
}

func TestEnd(t *testing.T) {
	s, d, _ := setup(t)
	id := create(t, s, alice, "other", session.CreateOptions{})
	if err := s.End(t.Context(), mallory, id); !errors.Is(err, session.ErrNotFound) {
		t.Fatalf("a stranger's End = %v", err)
	}
	if len(d.providers["other"].Live()) != 1 {
		t.Fatal("a stranger ended the session")
	}
	if err := s.End(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), alice, id); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("second End = %v, want ErrNotFound", err)
	}
}

func TestSweep(t *testing.T) {
	hour := time.Hour
	for _, c := range []struct {
		name  string
		setup func(s *Sessions, p *account.Account, id string)
		after time.Duration
		ended bool
	}{
		{"fresh", nil, 59 * time.Minute, false},
		{"idle", nil, hour, true},
		{"ttl in spite of activity", func(_ *Sessions, p *account.Account, id string) {
			p.Change(id, func(sb *backend.Sandbox) { sb.LastActive = sb.LastActive.Add(24 * hour) })
		}, 24 * hour, true},
		{"active", func(_ *Sessions, p *account.Account, id string) {
			p.Change(id, func(sb *backend.Sandbox) { sb.LastActive = sb.LastActive.Add(2 * hour) })
		}, 2*hour + time.Minute, false},
		{"times unknown", func(_ *Sessions, p *account.Account, id string) {
			p.Change(id, func(sb *backend.Sandbox) { sb.Created, sb.LastActive = time.Time{}, time.Time{} })
		}, 1000 * hour, false},
		{"unused upload that is looked at", func(s *Sessions, p *account.Account, id string) {
			s.MarkUploaded(id)
			p.Change(id, func(sb *backend.Sandbox) { sb.LastActive = sb.LastActive.Add(59 * time.Minute) })
		}, hour, true},
		{"used upload", func(s *Sessions, p *account.Account, id string) {
			s.MarkUploaded(id)
			s.MarkUsed(id)
			p.Change(id, func(sb *backend.Sandbox) { sb.LastActive = sb.LastActive.Add(59 * time.Minute) })
		}, hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, d, clock := setup(t)
			p := d.providers["main"]
			id := create(t, s, alice, "main", session.CreateOptions{})
			if c.setup != nil {
				c.setup(s, p, id)
			}
			clock.Advance(c.after)
			r, err := s.Sweep(t.Context())
			if err != nil || r.Seen != 1 || (r.Ended == 1) != c.ended || (len(p.Live()) == 0) != c.ended {
				t.Errorf("Sweep = %+v, %v, %d boxes left; want ended %v", r, err, len(p.Live()), c.ended)
			}
		})
	}
}

func TestSweepLeavesRunsAlone(t *testing.T) {
	s, d, clock := setup(t)
	id := create(t, s, alice, "main", session.CreateOptions{})
	release, err := s.Hold(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(48 * time.Hour)
	if r, err := s.Sweep(t.Context()); err != nil || r.Ended != 0 {
		t.Errorf("Sweep during a run = %+v, %v", r, err)
	}
	release()
	if r, err := s.Sweep(t.Context()); err != nil || r.Ended != 1 || len(d.providers["main"].Live()) != 0 {
		t.Errorf("Sweep after the run = %+v, %v", r, err)
	}
}

func TestSweepLooksAgainAndGoesOn(t *testing.T) {
	s, d, clock := setup(t)
	p := d.providers["main"]
	for range 3 {
		create(t, s, alice, "main", session.CreateOptions{})
	}
	clock.Advance(2 * time.Hour)
	deletes := 0
	p.Before = func(_ context.Context, op, _ string) error {
		if op == "Delete" {
			if deletes++; deletes == 1 {
				return &backend.Error{Kind: backend.KindInternal, Message: "stuck"}
			}
		}
		return nil
	}
	r, err := s.Sweep(t.Context())
	if r.Ended != 2 || r.Failed != 1 || err == nil {
		t.Errorf("Sweep = %+v, %v; want two ended, one failed", r, err)
	}
	// A session that was touched between the listing and the deletion stays.
	id := only(t, p).ID
	p.Before = func(_ context.Context, op, _ string) error {
		if op == "Get" {
			p.Change(id, func(sb *backend.Sandbox) { sb.LastActive = clock.Now() })
		}
		return nil
	}
	if r, err := s.Sweep(t.Context()); err != nil || r.Ended != 0 || len(p.Live()) != 1 {
		t.Errorf("Sweep = %+v, %v; the session was in use", r, err)
	}
}

func TestHold(t *testing.T) {
	s, _, _ := setup(t) // two may wait
	first, err := s.Hold(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Hold(t.Context(), "b")
	if err != nil {
		t.Fatal("another session waits:", err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.Hold(ctx, "a")
			failed <- err
		}()
	}
	for busy := false; !busy; { // until both wait
		s.lanes.mu.Lock()
		busy = s.lanes.m["a"].refs == 3
		s.lanes.mu.Unlock()
	}
	if _, err := s.Hold(t.Context(), "a"); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a third waiter: %v, want ErrBusy", err)
	}
	cancel()
	for range 2 {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("waiter: %v, want context.Canceled", err)
		}
	}
	first()
	first() // a second release must not give the turn to two
	again, err := s.Hold(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.tryHold("a"); ok {
		t.Error("two hold one session")
	}
	again()
}
