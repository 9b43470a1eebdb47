package session_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/host/session/workspace"
	"github.com/caisson-run/caisson/sdk/backend"
)

// lookups are the entry points that must make and wake nothing.
func lookups(t *testing.T, m *session.Manager) map[string]func(ctx context.Context, s string) error {
	t.Helper()
	calls := everything(m)
	for _, makes := range []string{"Run", "Exec", "Once", "Destroy", "BeginTurn", "LockRewind", "MarkStale", "Files"} {
		delete(calls, makes)
	}
	files, err := m.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls["List"] = func(ctx context.Context, s string) error { _, _, err := files.List(ctx, s, "."); return err }
	calls["Stat"] = func(ctx context.Context, s string) error { _, err := files.Stat(ctx, s, "f"); return err }
	calls["EnsureDir"] = func(ctx context.Context, s string) error { return files.EnsureDir(ctx, s, "d") }
	calls["RemoveInput"] = func(ctx context.Context, s string) error { return files.RemoveInput(ctx, s, "input/f") }
	return calls
}

func TestLookupsMakeAndWakeNothing(t *testing.T) {
	w := newWorld(t, append(nameless, backend.CapTerminals))
	m := w.manager()
	for name, call := range lookups(t, m) {
		err := call(t.Context(), "s")
		switch name {
		case "Turns", "KeepAlive", "KeepAliveExpected", "List", "EnsureDir", "RemoveInput":
			if err != nil {
				t.Errorf("%s without a sandbox = %v", name, err)
			}
		case "Maintain":
			if !errors.Is(err, session.ErrChanged) {
				t.Errorf("%s without a sandbox = %v", name, err)
			}
		case "Terminal":
			if !errors.Is(err, session.ErrNoSandbox) {
				t.Errorf("%s without a sandbox = %v", name, err)
			}
		default:
			if !errors.Is(err, session.ErrNoSandbox) {
				t.Errorf("%s without a sandbox = %v, want ErrNoSandbox", name, err)
			}
		}
	}
	if len(w.account.Made()) != 0 {
		t.Fatal("a lookup made a sandbox")
	}

	mustExec(t, m, "s")
	sb := w.only()
	for _, state := range []backend.State{backend.StatePaused, backend.StateTransitioning, backend.StateUnknown} {
		w.account.Change(sb.ID, func(sb *backend.Sandbox) { sb.State = state })
		connects := w.account.Count("Connect")
		for name, call := range lookups(t, m) {
			err := call(t.Context(), "s")
			switch name {
			case "Running", "List", "Stat", "EnsureDir", "RemoveInput", "Terminal":
				if !errors.Is(err, session.ErrPaused) || errors.Is(err, session.ErrStopped) {
					t.Errorf("%s of a sandbox that is %s = %v, want ErrPaused", name, state, err)
				}
			}
		}
		if w.account.Count("Connect") != connects {
			t.Errorf("a lookup connected a sandbox that is %s", state)
		}
		if bound(t, m, "s") != sb.ID {
			t.Errorf("%s unbound the sandbox", state)
		}
	}
	// Backends that never pause say that it was stopped.
	w.account.Caps = named
	if err := m.Running(t.Context(), "s"); !errors.Is(err, session.ErrStopped) || !errors.Is(err, session.ErrPaused) {
		t.Errorf("Running = %v, want ErrStopped", err)
	}
	// A sandbox that the provider does not show is not "no sandbox" while it is bound.
	w.account.Vanish(sb.ID)
	if err := m.Running(t.Context(), "s"); !errors.Is(err, session.ErrPaused) {
		t.Errorf("Running of a vanished sandbox = %v", err)
	}
	w.account.Before = func(context.Context, string, string) error { return account.Down() }
	if err := m.Running(t.Context(), "s"); backend.KindOf(err) != backend.KindUnavailable || errors.Is(err, session.ErrPaused) {
		t.Errorf("Running with the provider down = %v", err)
	}
}

func TestMaintainMeansOneSandbox(t *testing.T) {
	w := newWorld(t, nameless)
	m := w.manager()
	mustExec(t, m, "s")
	id := bound(t, m, "s")
	if res, err := m.Maintain(t.Context(), "s", id, pwd); err != nil || string(res.Stdout) != "pwd" {
		t.Errorf("Maintain = %+v, %v", res, err)
	}
	if _, err := m.Maintain(t.Context(), "s", "another", pwd); !errors.Is(err, session.ErrChanged) {
		t.Errorf("Maintain of another sandbox = %v", err)
	}
	w.account.Before = func(context.Context, string, string) error { return account.Down() }
	if _, err := m.Maintain(t.Context(), "s", id, pwd); err == nil || errors.Is(err, session.ErrChanged) {
		t.Errorf("Maintain with the provider down = %v: that proves nothing", err)
	}
	w.account.Before = nil
	w.account.Vanish(id)
	if _, err := m.Maintain(t.Context(), "s", id, pwd); !errors.Is(err, session.ErrChanged) {
		t.Errorf("Maintain of a vanished sandbox = %v", err)
	}
	if len(w.account.Made()) != 1 {
		t.Error("maintenance made a sandbox")
	}
}

func TestKeepAlive(t *testing.T) {
	w := newWorld(t, nameless)
	m := w.manager(func(o *session.ManagerOptions) { o.KeepAlive = time.Hour })
	mustExec(t, m, "s")
	id := bound(t, m, "s")
	wait, err := m.KeepAlive(t.Context(), "s")
	if err != nil || wait <= 0 || wait >= time.Hour {
		t.Errorf("KeepAlive = %v, %v", wait, err)
	}
	if got := w.only().Expires; !got.Equal(w.clock.Now().Add(time.Hour)) {
		t.Errorf("it expires at %v", got)
	}
	n := w.account.Count("KeepAlive")
	if wait, err = m.KeepAliveExpected(t.Context(), "s", "another"); wait != 0 || err != nil || w.account.Count("KeepAlive") != n {
		t.Errorf("KeepAliveExpected of another sandbox = %v, %v", wait, err)
	}
	if wait, err = m.KeepAliveExpected(t.Context(), "s", id); wait == 0 || err != nil {
		t.Errorf("KeepAliveExpected = %v, %v", wait, err)
	}
	w.account.Vanish(id)
	if wait, err = m.KeepAlive(t.Context(), "s"); wait != 0 || err != nil || len(w.account.Live()) != 0 {
		t.Errorf("KeepAlive of a vanished sandbox = %v, %v", wait, err)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t, nameless)
	m := w.manager()
	files, err := m.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Stat(t.Context(), "s", "a"); !errors.Is(err, session.ErrNoSandbox) {
		t.Errorf("Stat = %v", err)
	}
	if _, _, err := files.Read(t.Context(), "s", "a"); !errors.Is(err, session.ErrNoSandbox) {
		t.Errorf("Read = %v", err)
	}
	var batch []session.File
	for range 60 {
		batch = append(batch, session.File{Path: "skill/f" + strings.Repeat("x", len(batch)), Content: strings.NewReader("hi")})
	}
	if err := files.Write(t.Context(), "s", batch...); err != nil {
		t.Fatal(err)
	}
	if n := w.account.Count("MakeDir"); n != 1 {
		t.Errorf("the layout was prepared %d times for one batch", n)
	}
	if err := files.WriteInput(t.Context(), "s", session.File{Path: "input/a.csv", Content: strings.NewReader("1,2")}); err != nil {
		t.Fatal(err)
	}
	if list, _, err := files.List(t.Context(), "s", "skill"); err != nil || len(list) != 60 {
		t.Errorf("List = %d files, %v", len(list), err)
	}
	w.account.Change(bound(t, m, "s"), func(sb *backend.Sandbox) { sb.State = backend.StatePaused })
	r, e, err := files.Read(t.Context(), "s", "input/a.csv") // a download wakes
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "1,2" || e.Size != 3 {
		t.Errorf("read %q, %v", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}

	// Bad paths are refused before anything is made.
	made := len(w.account.Made())
	for name, err := range map[string]error{
		"work in input":        files.Write(t.Context(), "new", session.File{Path: "ok", Content: strings.NewReader("")}, session.File{Path: "input/x", Content: strings.NewReader("")}),
		"input elsewhere":      files.WriteInput(t.Context(), "new", session.File{Path: "x", Content: strings.NewReader("")}),
		"install in the tree":  files.Install(t.Context(), "new", session.File{Path: "x", Content: strings.NewReader("")}),
		"removing work":        files.RemoveInput(t.Context(), "s", "skill/f"),
		"directory in input":   files.EnsureDir(t.Context(), "s", "input/d"),
		"up":                   files.Write(t.Context(), "new", session.File{Path: "../x", Content: strings.NewReader("")}),
		"the whole work tree":  files.EnsureDir(t.Context(), "s", "/mnt/data"),
		"somebody else's file": func() error { _, err := files.Stat(t.Context(), "s", "/etc/passwd"); return err }(),
	} {
		if !errors.Is(err, workspace.ErrPath) {
			t.Errorf("%s = %v, want ErrPath", name, err)
		}
	}
	if len(w.account.Made()) != made {
		t.Error("a sandbox was made for nothing")
	}
	failed := w.manager(func(o *session.ManagerOptions) { o.Layout = workspace.Failed(errors.New("no directory")) })
	if files, err = failed.Files(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := files.Write(t.Context(), "s", session.File{Path: "x", Content: strings.NewReader("")}); !errors.Is(err, workspace.ErrPath) {
		t.Errorf("writing with a failed layout = %v", err)
	}
	w.account.Caps = []backend.Capability{backend.CapList, backend.CapMetadata}
	if _, err := m.Files(t.Context()); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("Files of a backend without them = %v", err)
	}
}

func TestVolumesNeedTheCapability(t *testing.T) {
	w := newWorld(t, nameless)
	m := w.manager(func(o *session.ManagerOptions) {
		o.Sandbox.Volumes = []backend.VolumeMount{{Name: "cache", Path: "/mnt/cache"}}
	})
	if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, session.ErrUnsupported) || len(w.account.Made()) != 0 {
		t.Errorf("Exec = %v", err)
	}
}

// meter counts what it is told.
type meter struct {
	refuse  error
	opened  int
	settled map[string]session.Holding
}

func (m *meter) Open(context.Context, string, string) error { m.opened++; return m.refuse }

func (m *meter) Settle(_ context.Context, h session.Holding) { m.settled[h.ID] = h }

func TestHeldTimeIsMetered(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		count := &meter{settled: make(map[string]session.Holding), refuse: errors.New("insufficient balance")}
		m := w.manager(func(o *session.ManagerOptions) { o.Meter, o.Payer = count, "wallet" })
		if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, count.refuse) || len(w.account.Made()) != 0 {
			t.Errorf("Exec without money = %v", err)
		}
		count.refuse = nil
		mustExec(t, m, "s")
		mustExec(t, m, "s")
		if count.opened != 2 || len(count.settled) != 0 {
			t.Errorf("opened %d, settled %v", count.opened, count.settled)
		}
		since := w.clock.Now()
		w.clock.Advance(time.Hour)
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if len(count.settled) != 1 {
			t.Fatalf("settled %v", count.settled)
		}
		for _, h := range count.settled {
			h.ID = ""
			if h != (session.Holding{Tenant: "acme", User: "alice", Session: "s", Payer: "wallet", Since: since}) {
				t.Errorf("settled %+v", h)
			}
		}
		if _, err := m.Once(t.Context(), program, started{}); err != nil || len(count.settled) != 2 {
			t.Errorf("Once: %v, settled %v", err, count.settled)
		}
	})
}

func TestTerminal(t *testing.T) {
	w := newWorld(t, append(nameless, backend.CapTerminals))
	m := w.manager()
	mustExec(t, m, "s")
	w.account.Change(bound(t, m, "s"), func(sb *backend.Sandbox) { sb.State = backend.StatePaused })
	if _, err := m.Terminal(t.Context(), "s", backend.TerminalSpec{}, false); !errors.Is(err, session.ErrPaused) {
		t.Errorf("Terminal of a paused sandbox = %v", err)
	}
	term, err := m.Terminal(t.Context(), "s", backend.TerminalSpec{}, true) // somebody asked for it
	if err != nil {
		t.Fatal(err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	w.account.Caps = nameless
	if _, err := m.Terminal(t.Context(), "s", backend.TerminalSpec{}, true); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("Terminal without the capability = %v", err)
	}
}
