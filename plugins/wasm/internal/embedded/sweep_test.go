package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
)

// clocked is a backend whose clock the test moves.
func clocked(t *testing.T, config string) (b *Backend, dir string, now *time.Time) {
	t.Helper()
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	dir = t.TempDir()
	b, err := New(Options{Version: "1.0.0", Dir: dir, Engine: instant{}, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	// The background sweep reads the clock too: it is over before the clock moves.
	b.end()
	b.tasks.Wait()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.OpenConfig(t.Context(), "c", []byte(config)); err != nil {
		t.Fatal(err)
	}
	return b, dir, &at
}

func (b *Backend) ids(t *testing.T) string {
	t.Helper()
	list, err := b.List(t.Context(), backend.ListFilter{Config: "c"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, sb := range list {
		ids = append(ids, sb.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (b *Backend) wantIDs(t *testing.T, when, want string) {
	t.Helper()
	if got := b.ids(t); got != want {
		t.Errorf("%s there are %q, want %q", when, got, want)
	}
}

func TestIdleAndTTL(t *testing.T) {
	b, _, now := clocked(t, `{"idle_seconds":3600,"ttl_seconds":36000}`)
	ctx := t.Context()
	for _, id := range []string{"idle", "run", "read", "written", "connected", "prolonged", "got", "open"} {
		made(t, b, id)
	}
	ref := func(id string) backend.Ref { return backend.Ref{Config: "c", ID: id} }
	write := func(id string) {
		t.Helper()
		if _, err := b.WriteFile(ctx, ref(id), backend.DataDir+"/f", backend.WriteOptions{}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	write("read")
	write("open")
	// A reader that is open for hours is a use.
	reader, _, err := b.ReadFile(ctx, ref("open"), backend.DataDir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	*now = now.Add(59 * time.Minute)
	b.sweep(ctx)
	b.wantIDs(t, "before anything is due", "connected got idle open prolonged read run written")
	runOnce(t, b, ref("run"))
	write("written")
	if r, _, err := b.ReadFile(ctx, ref("read"), backend.DataDir+"/f"); err != nil {
		t.Fatal(err)
	} else {
		r.Close()
	}
	if _, err := b.Connect(ctx, ref("connected")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.KeepAlive(ctx, ref("prolonged"), time.Hour); err != nil {
		t.Fatal(err)
	}
	// Looking is no use: else a host that lists would keep everything alive.
	if _, err := b.Get(ctx, ref("got")); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(time.Minute)
	b.sweep(ctx)
	b.wantIDs(t, "after an hour", "connected open prolonged read run written")
	if _, err := b.Stat(ctx, ref("idle"), backend.DataDir); !backend.ProvesGone(err) {
		t.Errorf("a swept sandbox: %v", err)
	}
	reader.Close()
	*now = now.Add(time.Minute)
	b.sweep(ctx)
	b.wantIDs(t, "once the reader is closed", "connected prolonged read run written")
	// Whatever is used, ten hours are enough.
	for range 9 {
		*now = now.Add(58 * time.Minute)
		write("written")
		b.sweep(ctx)
	}
	b.wantIDs(t, "after nine hours", "written")
	*now = now.Add(time.Hour)
	write("written")
	b.sweep(ctx)
	b.wantIDs(t, "after ten hours", "")
}

func TestExpiry(t *testing.T) {
	b, dir, now := clocked(t, "")
	ctx := t.Context()
	create := func(id string, policy backend.TimeoutPolicy) backend.Ref {
		t.Helper()
		sb, err := b.Create(ctx, backend.CreateSpec{Config: "c", Session: id, Timeout: policy, Metadata: backend.Metadata{Config: "c", Session: id}})
		if err != nil {
			t.Fatal(err)
		}
		return sb.Ref
	}
	after := backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Minute}
	short, long := create("short", after), create("long", after)
	create("never", backend.TimeoutPolicy{Mode: backend.TimeoutNever})
	create("default", backend.TimeoutPolicy{})
	if at, err := b.KeepAlive(ctx, long, time.Hour); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("KeepAlive = %v, %v", at, err)
	}
	if at, err := b.KeepAlive(ctx, long, time.Minute); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("KeepAlive for less = %v, %v: it never shortens", at, err)
	}
	*now = now.Add(time.Minute)
	// Absent at once, whenever the files are removed.
	b.wantIDs(t, "after a minute", "default long never")
	for what, err := range map[string]error{
		"Get":       func() error { _, err := b.Get(ctx, short); return err }(),
		"Connect":   func() error { _, err := b.Connect(ctx, short); return err }(),
		"KeepAlive": func() error { _, err := b.KeepAlive(ctx, short, time.Hour); return err }(),
	} {
		if !backend.ProvesGone(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.sweep(ctx)
	if _, err := os.Stat(filepath.Join(dir, "sessions", "c", "short")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files: %v", err)
	}
	*now = now.Add(1000 * time.Hour)
	b.sweep(ctx)
	b.wantIDs(t, "after six weeks", "default never")
}

// Whose beginning is unknown is not judged by clocks, and a config that is not open
// has none.
func TestUnknownStartIsProtected(t *testing.T) {
	b, _, now := clocked(t, `{"idle_seconds":60,"ttl_seconds":60}`)
	c, err := b.config("test", "c")
	if err != nil {
		t.Fatal(err)
	}
	due := b.due(c)
	old := now.Add(-time.Hour)
	if why := due(store.Record{}, old); why != "" {
		t.Errorf("without a beginning it is due: %s", why)
	}
	if why := due(store.Record{Expires: old}, old); why != "expired" {
		t.Errorf("its own end holds all the same: %q", why)
	}
	if why := due(store.Record{Created: *now}, old); why != "idle" {
		t.Errorf("idle: %q", why)
	}
	made(t, b, "x")
	if err := b.CloseConfig(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(time.Hour)
	b.sweep(t.Context())
	if err := b.OpenConfig(t.Context(), "c", nil); err != nil {
		t.Fatal(err)
	}
	b.wantIDs(t, "in a config that was closed", "x")
}

// A sandbox is not taken away from a run, however long it takes.
func TestSweepSparesARun(t *testing.T) {
	b, _, now := clocked(t, `{"idle_seconds":1}`)
	ref := made(t, b, "x")
	sb, err := b.use("test", ref)
	if err != nil {
		t.Fatal(err)
	}
	*now = now.Add(time.Hour)
	b.sweep(t.Context())
	b.wantIDs(t, "while it is used", "x")
	sb.Release()
	b.sweep(t.Context())
	b.wantIDs(t, "then", "")
}
