package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestSandboxIsMadeOnceAndKept(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		m := w.manager()
		for range 3 {
			mustExec(t, m, "chat/1")
		}
		mustExec(t, w.manager(), "chat/1") // another replica
		sb := w.only()
		if sb.ID != bound(t, m, "chat/1") {
			t.Errorf("bound to %q, not to %q", bound(t, m, "chat/1"), sb.ID)
		}
		md := sb.Metadata
		if md.Tenant != "acme" || md.User != "alice" || md.Deployment != "test" || md.Config != "main" || md.Labels[session.LabelSession] != "chat/1" {
			t.Errorf("metadata = %+v", md)
		}
		if strings.Contains(md.Session, "chat") || !identitySyntax(md.Session) {
			t.Errorf("the sandbox is called %q", md.Session)
		}
	})
}

func identitySyntax(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// The first criterion, with the fake provider.
func TestConcurrentFirstUsesMakeOneSandboxEach(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		const sessions, uses = 20, 200
		managers := []*session.Manager{w.manager(), w.manager()}
		var wg sync.WaitGroup
		for i := range uses {
			wg.Go(func() {
				if _, err := managers[i%2].Exec(t.Context(), fmt.Sprintf("s%d", i%sessions), pwd); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(w.account.Made()); n != sessions {
			t.Errorf("%d sandboxes were made for %d sessions", n, sessions)
		}
	})
}

func TestVanishedSandboxesAreReplacedOnceEach(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		const sessions, uses = 10, 100
		managers := []*session.Manager{w.manager(), w.manager()}
		for i := range sessions {
			mustExec(t, managers[0], fmt.Sprint(i))
		}
		for _, sb := range w.account.Live() {
			w.account.Vanish(sb.ID)
		}
		var wg sync.WaitGroup
		for i := range uses {
			wg.Go(func() {
				if _, err := managers[i%2].Exec(t.Context(), fmt.Sprint(i%sessions), pwd); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(w.account.Made()); n != 2*sessions {
			t.Errorf("%d sandboxes were made, want %d", n, 2*sessions)
		}
	})
}

// Only the control plane's word about the sandbox itself is proof; anything else
// keeps the binding.
func TestReplacedOnProofOnly(t *testing.T) {
	for _, kind := range backend.Kinds() {
		for _, plane := range []backend.Plane{backend.PlaneControl, backend.PlaneData} {
			for _, subject := range []backend.Subject{backend.SubjectSandbox, backend.SubjectFile} {
				w := newWorld(t, nameless)
				m := w.manager()
				mustExec(t, m, "s")
				first := bound(t, m, "s")
				w.account.Before = func(_ context.Context, op, id string) error {
					if op == "Connect" && id == first {
						return &backend.Error{Kind: kind, Plane: plane, Subject: subject}
					}
					return nil
				}
				w.account.Vanish(first)
				proof := (kind == backend.KindNotFound || kind == backend.KindTerminal) && plane == backend.PlaneControl && subject == backend.SubjectSandbox
				_, err := m.Exec(t.Context(), "s", pwd)
				if proof && err != nil || !proof && backend.KindOf(err) != kind {
					t.Errorf("%s %s %s: %v", kind, plane, subject, err)
				}
				if now := bound(t, m, "s"); (now != first) != proof {
					t.Errorf("%s %s %s: bound to %s, was %s", kind, plane, subject, now, first)
				}
				if made := len(w.account.Made()); (made == 2) != proof {
					t.Errorf("%s %s %s: %d sandboxes made", kind, plane, subject, made)
				}
			}
		}
	}
}

func TestLostBindingsAreFoundByMetadata(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		mustExec(t, w.manager(), "s")
		sb := w.only()
		w.reset()
		m := w.manager()
		mustExec(t, m, "s")
		if w.only().ID != sb.ID || bound(t, m, "s") != sb.ID {
			t.Error("the sandbox was not found again")
		}
	})
}

// Of several sandboxes with its metadata a session gets the one that was worked in
// last, and none of the others, whose turn the reaper's is, is deleted with it.
func TestLiveliestMatchWinsAndOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t, nameless)
	mustExec(t, w.manager(), "s")
	w.clock.Advance(time.Hour)
	mustExec(t, w.manager(), "s")
	sb := w.only()
	w.account.Careless = true
	recent := sb.LastActive.Add(time.Minute)
	for id, change := range map[string]func(*backend.Sandbox){
		"older":      func(sb *backend.Sandbox) { sb.Created = time.Unix(1, 0); sb.LastActive = sb.Created },
		"younger":    func(sb *backend.Sandbox) { sb.Created = sb.Created.Add(time.Minute); sb.LastActive = sb.Created },
		"timeless":   func(sb *backend.Sandbox) { sb.Created, sb.LastActive = time.Time{}, time.Time{} },
		"tenant":     func(sb *backend.Sandbox) { sb.Metadata.Tenant = "evil"; sb.LastActive = recent },
		"deployment": func(sb *backend.Sandbox) { sb.Metadata.Deployment = "other"; sb.LastActive = recent },
		"session":    func(sb *backend.Sandbox) { sb.Metadata.Session = "x"; sb.LastActive = recent },
		"config":     func(sb *backend.Sandbox) { sb.Config = "other"; sb.LastActive = recent },
		"label":      func(sb *backend.Sandbox) { sb.Metadata.Labels = nil; sb.LastActive = recent },
	} {
		other := sb
		other.ID = id
		change(&other)
		w.account.Put(other)
	}
	w.reset()
	m := w.manager()
	mustExec(t, m, "s")
	if got := bound(t, m, "s"); got != sb.ID {
		t.Errorf("adopted %q, want the one that was worked in last", got)
	}
	if gone := w.account.Deleted(); len(gone) > 0 {
		t.Errorf("%q were deleted", gone)
	}
}

// What a creation whose end is not known may have left is deleted; a sandbox that a
// listing leaves out at first and that was there before is not.
func TestFailedCreateSparesOlderSandboxes(t *testing.T) {
	w := newWorld(t, nameless)
	mustExec(t, w.manager(), "s")
	old := w.only()
	w.clock.Advance(time.Hour)
	w.reset()
	w.account.Vanish(old.ID)
	w.account.After = func(_ context.Context, op, _ string) error {
		if op != "Create" {
			return nil
		}
		w.account.Put(old) // listed from now on
		return &backend.Error{Kind: backend.KindTimeout, Message: "no answer"}
	}
	m := w.manager()
	if _, err := m.Exec(t.Context(), "s", pwd); backend.KindOf(err) != backend.KindTimeout {
		t.Errorf("Exec = %v, want a timeout", err)
	}
	if sb := w.only(); sb.ID != old.ID {
		t.Errorf("%s is left, want %s", sb.ID, old.ID)
	}
	w.account.After = nil
	mustExec(t, m, "s")
	if got := bound(t, m, "s"); got != old.ID {
		t.Errorf("bound to %q, want %q", got, old.ID)
	}
}

// Another tenant with a session of the same name has a sandbox of its own.
func TestTenantsAreApart(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		ours, theirs := w.manager(), w.manager(func(o *session.ManagerOptions) { o.Tenant = "evil" })
		mustExec(t, ours, "s")
		mustExec(t, theirs, "s")
		if len(w.account.Made()) != 2 || bound(t, ours, "s") == bound(t, theirs, "s") {
			t.Error("two tenants share a sandbox")
		}
		if err := theirs.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if w.only().Metadata.Tenant != "acme" {
			t.Error("one tenant destroyed another's sandbox")
		}
	})
}

func TestBindingOfAnotherConfigIsNotTouchedWithThisClient(t *testing.T) {
	w := newWorld(t, nameless)
	other := account.New(w.clock.Now, nameless...)
	other.Name = "other"
	replica := account.NewReplica(t, map[string]*account.Account{"main": w.account, "second": other}, "main")
	on := func(config string) *session.Manager {
		return w.manager(func(o *session.ManagerOptions) { o.Config, o.Targets = config, replica })
	}
	mustExec(t, on("main"), "s")
	if _, err := on("second").Bound(t.Context(), "s"); !errors.Is(err, session.ErrNoSandbox) {
		t.Errorf("Bound = %v, want no sandbox of this config", err)
	}
	mustExec(t, on("second"), "s")
	if len(w.account.Deleted()) != 0 || len(other.Deleted()) != 0 || len(w.account.Live()) != 1 {
		t.Error("a sandbox of the other config was deleted")
	}
	if b, _, err := w.store.Get(t.Context(), binding.Key{Tenant: "acme", Session: "s"}); err != nil || b.Provider != "other" || b.Config != "second" {
		t.Errorf("binding = %v, %v", b, err)
	}
}

func TestSessionOnAnotherNodeIsNotReplaced(t *testing.T) {
	w := newWorld(t, named)
	on := func(node string, a *account.Account) *session.Manager {
		r := account.NewReplica(t, map[string]*account.Account{"main": a}, "main")
		r.Node = node
		return w.manager(func(o *session.ManagerOptions) { o.Targets = r })
	}
	a := on("node-a", w.account)
	b := on("node-b", account.New(w.clock.Now, named...)) // knows nothing of the first
	mustExec(t, a, "s")
	first := bound(t, a, "s")
	_, err := b.Exec(t.Context(), "s", pwd)
	if !errors.Is(err, session.ErrElsewhere) {
		t.Errorf("Exec on another node = %v, want ErrElsewhere", err)
	}
	if err := b.Destroy(t.Context(), "s"); !errors.Is(err, session.ErrElsewhere) {
		t.Errorf("Destroy on another node = %v, want ErrElsewhere", err)
	}
	if _, err := b.Bound(t.Context(), "s"); !errors.Is(err, session.ErrElsewhere) {
		t.Errorf("Bound on another node = %v, want ErrElsewhere", err)
	}
	if bound(t, a, "s") != first {
		t.Error("the binding was replaced")
	}
}

func TestDisabledAndClosed(t *testing.T) {
	w := newWorld(t, named)
	closed := w.manager()
	mustExec(t, closed, "s")
	closed.Close()
	for want, m := range map[error]*session.Manager{session.ErrDisabled: session.Disabled(), session.ErrClosed: closed} {
		for name, call := range everything(m) {
			if err := call(t.Context(), "s"); !errors.Is(err, want) {
				t.Errorf("%s = %v, want %v", name, err, want)
			}
		}
	}
	w.only() // closing ends no sandbox
	if session.Disabled().Layout().Err() == nil {
		t.Error("a disabled manager has a layout")
	}
}

// everything is every entry point that takes a session.
func everything(m *session.Manager) map[string]func(ctx context.Context, s string) error {
	return map[string]func(context.Context, string) error{
		"Run":  func(ctx context.Context, s string) error { _, err := m.Run(ctx, s, program, started{}); return err },
		"Exec": func(ctx context.Context, s string) error { _, err := m.Exec(ctx, s, pwd); return err },
		"Maintain": func(ctx context.Context, s string) error {
			_, err := m.Maintain(ctx, s, "x", pwd)
			return err
		},
		"Once":      func(ctx context.Context, _ string) error { _, err := m.Once(ctx, program, started{}); return err },
		"BeginTurn": func(ctx context.Context, s string) error { _, err := m.BeginTurn(ctx, s); return err },
		"Turns":     func(ctx context.Context, s string) error { _, _, err := m.Turns(ctx, s); return err },
		"LockRewind": func(ctx context.Context, s string) error {
			_, _, err := m.LockRewind(ctx, s)
			return err
		},
		"MarkStale": func(ctx context.Context, _ string) error { _, err := m.MarkStale(ctx); return err },
		"Destroy":   func(ctx context.Context, s string) error { return m.Destroy(ctx, s) },
		"Bound":     func(ctx context.Context, s string) error { _, err := m.Bound(ctx, s); return err },
		"Running":   func(ctx context.Context, s string) error { return m.Running(ctx, s) },
		"KeepAlive": func(ctx context.Context, s string) error { _, err := m.KeepAlive(ctx, s); return err },
		"KeepAliveExpected": func(ctx context.Context, s string) error {
			_, err := m.KeepAliveExpected(ctx, s, "x")
			return err
		},
		"Terminal": func(ctx context.Context, s string) error {
			_, err := m.Terminal(ctx, s, backend.TerminalSpec{}, false)
			return err
		},
		"Files": func(ctx context.Context, _ string) error { _, err := m.Files(ctx); return err },
	}
}

var program = backend.RunSpec{
	RunID: "r", Program: backend.Program{File: "main", Source: []byte("x")}, Steps: []backend.Step{{Name: "run", Argv: []string{"main"}}},
}

// started is a RunIO that lets a program start.
type started struct{ backend.RunIO }

func (started) Started() error { return nil }

func TestBadNamesAreRefused(t *testing.T) {
	w := newWorld(t, named)
	for _, name := range []string{"", " ", "a\x00", "a{b}", strings.Repeat("x", 200), "\xff"} {
		for call, f := range everything(w.manager()) {
			if call == "Once" || call == "MarkStale" || call == "Files" {
				continue
			}
			var field *binding.FieldError
			if err := f(t.Context(), name); !errors.As(err, &field) {
				t.Errorf("%s(%q) = %v, want a field error", call, name, err)
			}
		}
	}
	if len(w.account.Made()) != 0 {
		t.Error("something was made")
	}
}

func TestResolver(t *testing.T) {
	w := newWorld(t, named)
	replica := account.NewReplica(t, map[string]*account.Account{"main": w.account, "gpu": w.account}, "main", "gpu")
	o := session.ManagerOptions{Targets: replica, Store: w.store, Exists: session.AlwaysExists{}, Deployment: "test"}
	r, err := session.NewResolver(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{"": "main", "main": "main", "gpu": "gpu"} {
		m, err := r.Resolve(t.Context(), "acme", config)
		if err != nil || m.Config() != want {
			t.Errorf("Resolve(%q) = %v, %v", config, m, err)
		}
	}
	if _, err := r.Resolve(t.Context(), "acme", "gone"); !errors.Is(err, session.ErrConfigNotFound) {
		t.Errorf("a missing config = %v, want ErrConfigNotFound", err)
	}
	if _, err := r.Resolve(t.Context(), "", "main"); err == nil {
		t.Error("no tenant was accepted")
	}
	cordoned := o
	cordoned.Targets = cordon{replica}
	if r, err = session.NewResolver(t.Context(), cordoned); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), "acme", "main"); !errors.Is(err, session.ErrConfigCordoned) {
		t.Errorf("a cordoned config = %v", err)
	}

	o.Tenant = "acme"
	if _, err := session.NewResolver(t.Context(), o); err == nil {
		t.Error("a resolver took a tenant")
	}
	o.Tenant, o.Store = "", w.open(sharedEngine{w.engine})
	if _, err := session.NewResolver(t.Context(), o); err == nil {
		t.Error("AlwaysExists was accepted with a shared store")
	}
}

type cordon struct{ session.Targets }

func (cordon) Named(context.Context, string, string) (session.Target, error) {
	return session.Target{}, session.ErrConfigCordoned
}

type sharedEngine struct{ binding.Engine }

func (e sharedEngine) Check(ctx context.Context) (binding.Report, error) {
	r, err := e.Engine.Check(ctx)
	r.Shared = true
	return r, err
}
