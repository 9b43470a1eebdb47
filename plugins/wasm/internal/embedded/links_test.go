package embedded

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is an engine for tests in which no program runs.
type still struct{}

func (still) Run(context.Context, interp.Program) (interp.Result, error) { panic("nothing runs here") }
func (still) Languages() []interp.Language                               { return nil }
func (still) Sweep() error                                               { return nil }

func (still) Report() []string                      { return nil }
func (still) Warm(context.Context, ...string) error { return nil }
func (still) Prepare(context.Context, string) error { return nil }

func newStill(t *testing.T, quota rootfs.Limits) (*Backend, backend.Ref, string) {
	t.Helper()
	dir := t.TempDir()
	b, err := New(Options{Version: "1.0.0", Dir: dir, Engine: still{}, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.OpenConfig(t.Context(), "c", nil); err != nil {
		t.Fatal(err)
	}
	sb, err := b.Create(t.Context(), backend.CreateSpec{Config: "c", Session: "s", Metadata: backend.Metadata{Config: "c", Session: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	return b, sb.Ref, filepath.Join(dir, "sessions", "c", "s")
}

// Programs cannot make links that lead out, but what is in the directory is not
// believed either: no operation follows one.
func TestLinksLeadNowhere(t *testing.T) {
	b, ref, dir := newStill(t, rootfs.DefaultLimits())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(dir, "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"abs": secret, "absdir": filepath.Dir(secret), "up": "../record.json", "updir": "..", "far": strings.Repeat("../", 20) + secret[1:], "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, "data", name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	paths := []string{"abs", "up", "far", "loop", "absdir/secret", "updir/record.json", "updir/data/abs"}
	for _, p := range paths {
		p = backend.DataDir + "/" + p
		if r, _, err := b.ReadFile(ctx, ref, p); err == nil {
			content, _ := io.ReadAll(r)
			r.Close()
			t.Errorf("ReadFile(%s) = %q", p, content)
		} else if backend.ProvesGone(err) || strings.Contains(err.Error(), dir) {
			t.Errorf("ReadFile(%s): %v", p, err)
		}
	}
	for _, p := range []string{"absdir/new", "updir/new", "updir/record.json", "absdir/secret"} {
		p = backend.DataDir + "/" + p
		if e, err := b.WriteFile(ctx, ref, p, backend.WriteOptions{}, strings.NewReader("evil")); err == nil {
			t.Errorf("WriteFile(%s) = %+v", p, e)
		}
		if err := b.MakeDir(ctx, ref, p+"/x"); err == nil {
			t.Errorf("MakeDir(%s/x) succeeded", p)
		}
		if err := b.Remove(ctx, ref, p); err == nil {
			if _, err := os.Stat(secret); err != nil {
				t.Fatalf("Remove(%s) reached the host", p)
			}
		}
	}
	// A link in the last place is replaced, not followed.
	if _, err := b.WriteFile(ctx, ref, backend.DataDir+"/abs", backend.WriteOptions{}, strings.NewReader("mine")); err != nil {
		t.Errorf("WriteFile over a link: %v", err)
	}
	for _, l := range []string{"absdir", "updir", "loop"} {
		if list, err := b.ListDir(ctx, ref, backend.DataDir+"/"+l); err == nil {
			t.Errorf("ListDir(%s) = %v", l, list)
		}
		if w, err := b.Walk(ctx, backend.WalkRequest{Ref: ref, Root: backend.DataDir + "/" + l}); err == nil {
			t.Errorf("Walk(%s) = %v", l, w)
		}
	}
	w, err := b.Walk(ctx, backend.WalkRequest{Ref: ref, Digests: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range w.Entries {
		if (e.Type == backend.EntryOther) == (e.Path == backend.DataDir+"/abs") || strings.Contains(e.Path, "secret") {
			t.Errorf("Walk reports %+v", e)
		}
	}
	if got, _ := os.ReadFile(secret); string(got) != "host" {
		t.Errorf("the host's file holds %q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "record.json")); !bytes.Equal(got, record) {
		t.Error("the owner record was reached")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "..", "..", "..", "work", "*", "put-*")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}
}

func TestWriteIsChargedExactly(t *testing.T) {
	b, ref, _ := newStill(t, rootfs.Limits{Bytes: 3 << 20, Entries: 4})
	ctx := t.Context()
	put := func(name string, size int) error {
		_, err := b.WriteFile(ctx, ref, backend.DataDir+"/"+name, backend.WriteOptions{}, io.LimitReader(zeros{}, int64(size)))
		return err
	}
	used := func() (int64, int64) {
		sb, err := b.store.Get("c", "s")
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Release()
		return sb.Quota.Used()
	}
	for _, c := range []struct {
		name           string
		size           int
		full           bool
		bytes, entries int64
	}{
		{"a", 1 << 20, false, 1 << 20, 1},
		{"a", 2 << 20, false, 2 << 20, 1},      // replaced
		{"b", 2 << 20, true, 2 << 20, 1},       // does not fit
		{"b", 1 << 20, false, 3 << 20, 2},      // to the last byte
		{"c", 1, true, 3 << 20, 2},             // full
		{"c", 0, false, 3 << 20, 3},            // entries are another account
		{"d/e", 0, true, 3 << 20, 4},           // one entry short: the directory stays
		{"a", 0, false, 1 << 20, 4},            // shrunk
		{"endless", 1 << 40, true, 1 << 20, 4}, // refused on the way
	} {
		err := put(c.name, c.size)
		if (err != nil) != c.full || (c.full && backend.KindOf(err) != backend.KindCapacity) {
			t.Errorf("%s, %d bytes: %v", c.name, c.size, err)
		}
		if bytes, entries := used(); bytes != c.bytes || entries != c.entries {
			t.Errorf("%s, %d bytes: account %d, %d, want %d, %d", c.name, c.size, bytes, entries, c.bytes, c.entries)
		}
	}
	if err := b.Remove(ctx, ref, backend.DataDir+"/b"); err != nil {
		t.Fatal(err)
	}
	if bytes, entries := used(); bytes != 0 || entries != 3 {
		t.Errorf("after a removal: %d, %d", bytes, entries)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCreateRefusesWhatItCannotGive(t *testing.T) {
	b, _, _ := newStill(t, rootfs.DefaultLimits())
	for name, change := range map[string]func(*backend.CreateSpec){
		"open network": func(s *backend.CreateSpec) { s.Network.Mode = backend.NetworkOpen },
		"allow list":   func(s *backend.CreateSpec) { s.Network.Allow = []string{"10.0.0.0/8"} },
		"volumes":      func(s *backend.CreateSpec) { s.Volumes = []backend.VolumeMount{{Name: "v", Path: "/v"}} },
		"template":     func(s *backend.CreateSpec) { s.Template = "t" },
		"entrypoint":   func(s *backend.CreateSpec) { s.Entrypoint = []string{"x"} },
		"pause": func(s *backend.CreateSpec) {
			s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Action: backend.TimeoutPause}
		},
	} {
		spec := backend.CreateSpec{Config: "c", Session: "n", Metadata: backend.Metadata{Config: "c", Session: "n"}}
		change(&spec)
		if _, err := b.Create(t.Context(), spec); backend.KindOf(err) != backend.KindUnsupported {
			t.Errorf("%s: %v, want unsupported", name, err)
		}
	}
	if list, err := b.List(t.Context(), backend.ListFilter{Config: "c"}); err != nil || len(list) != 1 {
		t.Errorf("refused sandboxes exist: %v, %v", list, err)
	}
}

func TestMaxSandboxes(t *testing.T) {
	b, ref, _ := newStill(t, rootfs.DefaultLimits())
	if err := b.OpenConfig(t.Context(), "c", []byte(`{"max_sandboxes":1}`)); err != nil {
		t.Fatal(err)
	}
	spec := backend.CreateSpec{Config: "c", Session: "n", Metadata: backend.Metadata{Config: "c", Session: "n"}}
	if _, err := b.Create(t.Context(), spec); backend.KindOf(err) != backend.KindCapacity {
		t.Errorf("one too many: %v, want capacity", err)
	}
	if err := b.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), spec); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}
