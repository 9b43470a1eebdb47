package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// A program that is replaced under a running plugin is not what is started in its
// place: the digest is checked again at every start. As long as the file stays what it
// is nothing is tried again.
func TestReplacedProgramIsNotStarted(t *testing.T) {
	binary, err := hostileBinary()
	if err != nil {
		t.Fatal(err)
	}
	other := append(slices.Clone(binary), 0)
	s := quick
	s.Crashes, s.Window = 4, time.Hour
	f := openFaulty(t, s, func(f *fixture, binary []byte) {
		f.installHostile("hostile", nil, binary, "sha256: "+sumOf(binary)+"\n")
	})
	f.expectState(PluginReady)
	f.replaceHostile(other)
	_ = f.get(t.Context(), "hostile", "kill")
	f.expectFailed("digest is "+sumOf(other), "not the pinned "+sumOf(binary))
	f.latencies(t, 10)
	if left := socketDirs(t, f.h); left != 1 {
		t.Errorf("%d socket directories are there, want that of the other plugin", left)
	}

	path := filepath.Join(f.plugins, "hostile", "fake")
	f.replaceHostile(binary)
	f.expectState(PluginReady)
	for _, c := range []struct {
		name        string
		spoil, mend func() error
		cause       string
	}{
		{"writable", func() error { return os.Chmod(path, 0o757) }, func() error { return os.Chmod(path, 0o755) }, "lets others write it"},
		{"not executable", func() error { return os.Chmod(path, 0o644) }, func() error { return os.Chmod(path, 0o755) }, "not executable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.spoil(); err != nil {
				t.Fatal(err)
			}
			_ = f.get(t.Context(), "hostile", "kill")
			f.expectFailed(c.cause)
			if err := f.h.ResetPlugin("hostile"); err != nil {
				t.Fatal(err)
			}
			f.expectFailed(c.cause)
			if err := c.mend(); err != nil {
				t.Fatal(err)
			}
			f.expectState(PluginReady)
			f.h.backends.line("hostile").program().sup.Reset() // its ends are not what is counted here
		})
	}
}

// expectFailed waits for the state and looks whether it stays.
func (f faulty) expectFailed(causes ...string) {
	f.t.Helper()
	f.expectState(PluginFailed, causes...)
	st := status(f.h, "hostile")
	if !strings.Contains(st.Fix, "mend the file") {
		f.t.Errorf("fix %q", st.Fix)
	}
	if err := f.get(f.t.Context(), "hostile", "x"); backend.KindOf(err) != backend.KindUnavailable {
		f.t.Errorf("a call: %v, want unavailable", err)
	}
	for end := time.Now().Add(5 * quick.CheckEvery); time.Now().Before(end); time.Sleep(quick.CheckEvery / 10) {
		if now := status(f.h, "hostile"); now.State != PluginFailed || !now.Since.Equal(st.Since) {
			f.t.Fatalf("it became %+v: the file is what it was", now)
		}
	}
}
