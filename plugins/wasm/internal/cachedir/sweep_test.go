package cachedir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	own, other = "0123abcd", "deadbeef"
	day        = 24 * time.Hour
)

func key(c string) string { return strings.Repeat(c, 32) }

func TestSweep(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		files []string
		age   time.Duration // of each file and what is in it
		used  time.Duration // since the lock file was touched; 0 if there is none
		gone  bool
	}{
		"young":                    {[]string{key("a") + "-" + own + ".wasm"}, 29 * day, 29 * day, false},
		"old":                      {[]string{key("a") + "-" + own + ".wasm", key("a") + "-" + own + ".d/x/y", key("a") + "-" + own + ".sum"}, 31 * day, 31 * day, true},
		"old but used":             {[]string{key("a") + "-" + own + ".image"}, 300 * day, day, false},
		"of another version":       {[]string{key("a") + "-" + other + ".image"}, 4 * day, 4 * day, true},
		"of another version, used": {[]string{key("a") + "-" + other + ".image"}, 40 * day, day, false},
		"of an early version":      {[]string{key("a") + ".image", key("a") + ".image.lock"}, 4 * day, 0, true},
		"early and young":          {[]string{key("a") + ".pch"}, 2 * day, 0, false},
		"half a file":              {[]string{key("a") + "-" + own + ".sum.tmp"}, 31 * day, 0, true},
		"left by a process":        {[]string{"caisson-pipes-1/x"}, 8 * day, 0, true},
		"used by a process":        {[]string{"caisson-pipes-1/x"}, 6 * day, 0, false},
		"not an entry":             {[]string{"README", "caisson-file", "other/x", key("a"), strings.Repeat("a", 31) + ".wasm"}, 400 * day, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				p := filepath.Join(dir, f)
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				for ; p != dir; p = filepath.Dir(p) {
					age(t, p, now.Add(-c.age))
				}
			}
			if c.used > 0 {
				base, _, _ := strings.Cut(c.files[0], ".")
				lock := filepath.Join(dir, base+lockExt)
				if err := os.WriteFile(lock, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				age(t, lock, now.Add(-c.used))
			}
			before := names(t, dir)
			n, err := Sweep(dir, own, now)
			if err != nil {
				t.Fatal(err)
			}
			after := names(t, dir)
			if c.gone && (n != 1 || len(after) > 0) || !c.gone && (n != 0 || len(after) != len(before)) {
				t.Errorf("%d deleted, %v are left of %v", n, after, before)
			}
		})
	}
}

// An entry that somebody holds is not touched, and one that was swept can be made
// again, also by whoever waited for it meanwhile.
func TestSweepAndLock(t *testing.T) {
	dir := t.TempDir()
	base := Base(dir, key("a"), own)
	held, err := Lock(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(31 * day)
	if n, err := Sweep(dir, own, later); n != 0 || err != nil {
		t.Errorf("%d deleted while it was held, %v", n, err)
	}
	_ = held.Close()

	// However sweeping and locking interleave, one holds the lock at a time, and
	// the file that it has locked is the one that is there.
	var wg sync.WaitGroup
	var holders sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 100 {
				f, err := Lock(context.Background(), base)
				if err != nil {
					t.Error(err)
					return
				}
				if !holders.TryLock() {
					t.Error("two hold the lock")
				} else {
					a, _ := f.Stat()
					b, err := os.Stat(base + lockExt)
					if err != nil || !os.SameFile(a, b) {
						t.Errorf("the lock is one of a file that is gone: %v", err)
					}
					holders.Unlock()
				}
				_ = f.Close()
			}
		})
		wg.Go(func() {
			for range 100 {
				if _, err := Sweep(dir, own, later); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func age(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}
