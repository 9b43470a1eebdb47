package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

func always(Record, time.Time) string { return "always" }

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	clock := func() time.Time { return at }
	openAt := func() *Store {
		s, err := Open(dir, Options{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s, other := openAt(), openAt() // another process, as far as locks know
	for _, id := range []string{"idle", "used", "elsewhere", "fresh"} {
		create(t, s, id).Release()
	}
	used, err := s.Get("c", "used")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := other.Get("c", "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Hour)
	fresh, err := other.Get("c", "fresh")
	if err != nil {
		t.Fatal(err)
	}
	fresh.Touch()
	fresh.Release()
	idle := func(_ Record, active time.Time) string {
		if at.Sub(active) >= time.Hour {
			return "idle"
		}
		return ""
	}
	r, err := s.Sweep(t.Context(), "c", idle)
	if want := (SweepReport{Seen: 4, Ended: 1, InUse: 2}); err != nil || r != want {
		t.Fatalf("sweep = %+v, %v, want %+v", r, err, want)
	}
	if _, err := s.Get("c", "idle"); !errors.Is(err, ErrAbsent) {
		t.Errorf("the idle one: %v", err)
	}
	// Once released they can go, whoever held them.
	used.Release()
	elsewhere.Release()
	if r, err = s.Sweep(t.Context(), "c", always); err != nil || r.Ended != 3 {
		t.Errorf("second sweep = %+v, %v", r, err)
	}
	if _, err := other.Get("c", "elsewhere"); !errors.Is(err, ErrAbsent) {
		t.Errorf("a sandbox that another process ended: %v", err)
	}
	if b, err := other.Create(t.Context(), "c", "elsewhere", record("elsewhere"), ""); err != nil {
		t.Errorf("its name: %v", err)
	} else {
		b.Release()
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %v", left)
	}
}

// What a sweep saw may be old by the time it acts.
func TestSweepLooksAgain(t *testing.T) {
	s := open(t, t.TempDir())
	create(t, s, "x").Release()
	looks := 0
	r, err := s.Sweep(t.Context(), "c", func(Record, time.Time) string {
		if looks++; looks == 1 {
			return "due"
		}
		return ""
	})
	if err != nil || r.Ended != 0 || looks != 2 {
		t.Errorf("sweep = %+v, %v after %d looks", r, err, looks)
	}
	if b, err := s.Get("c", "x"); err != nil {
		t.Error(err)
	} else {
		b.Release()
	}
}

func TestSweepPutsDamagedRecordsAside(t *testing.T) {
	s := open(t, t.TempDir())
	for id, content := range map[string]string{"empty": "", "zeros": "\x00\x00\x00\x00", "moved": `{"schema":1,"config":"c","id":"other"}`} {
		create(t, s, id).Release()
		if err := os.WriteFile(filepath.Join(s.path(key{"c", id}), recordFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "future").Release()
	if err := os.WriteFile(filepath.Join(s.path(key{"c", "future"}), recordFile), []byte(`{"schema":99,"config":"c","id":"future"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, s, "good").Release()
	never := func(Record, time.Time) string { return "" }
	r, err := s.Sweep(t.Context(), "c", never)
	if r.Damaged != 3 || r.Seen != 5 || err == nil { // the future one is no damage, but it is said
		t.Errorf("sweep = %+v, %v", r, err)
	}
	if list, _ := os.ReadDir(filepath.Join(s.dir, "damaged")); len(list) != 3 {
		t.Errorf("damaged holds %v", list)
	}
	if b, err := s.Create(t.Context(), "c", "empty", record("empty"), ""); err != nil {
		t.Errorf("the name of a damaged sandbox: %v", err)
	} else {
		b.Release()
	}
	if _, _, err := s.Look("c", "good"); err != nil {
		t.Error(err)
	}
}

// A process that holds the exclusive lock and does nothing makes others fail, not
// hang.
func TestFrozenSweeper(t *testing.T) {
	s := open(t, t.TempDir())
	create(t, s, "x").Release()
	lock, err := lockDir(s.path(key{"c", "x"}), 2) // LOCK_EX
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("c", "x"); !errors.Is(err, errBusy) {
		t.Errorf("Get = %v", err)
	}
	lock.close()
	if b, err := s.Get("c", "x"); err != nil {
		t.Error(err)
	} else {
		b.Release()
	}
}

func TestScratchIsUsedAgainOnlyWhenClean(t *testing.T) {
	s := open(t, t.TempDir())
	take := func() *Scratch {
		t.Helper()
		c, err := s.Scratch()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Program("main.py", []byte("print(1)")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	give := func(c *Scratch) {
		t.Helper()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := take()
	dir := c.dir
	give(c)
	if c = take(); c.dir != dir {
		t.Error("a clean directory was not used again")
	}
	if list, _ := os.ReadDir(filepath.Join(dir, "entry")); len(list) != 1 {
		t.Errorf("entry holds %v", list)
	}
	for name, dirty := range map[string]func(f *rootfs.FS){
		"file":   func(f *rootfs.FS) { f.Mkdir("d", 0o700); f.Rmdir("d") },
		"mode":   func(f *rootfs.FS) { f.Chmod(".", 0o777) },
		"time":   func(f *rootfs.FS) { f.Utimens(".", 1, 1) },
		"handle": func(f *rootfs.FS) { h, _ := f.OpenFile(".", 0, 0); h.Utimens(1, 1); h.Close() },
	} {
		dirty(rootfs.New(c.Tmp, c.TmpQuota, rootfs.Options{}))
		dir = c.dir
		give(c)
		if c = take(); c.dir == dir {
			t.Errorf("%s: a directory that a run changed was used again", name)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is still there: %v", name, err)
		}
	}
	// Past the account, as nothing should.
	if err := c.Tmp.WriteFile("left", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = c.dir
	give(c)
	if c = take(); c.dir == dir {
		t.Error("a directory that is not empty was used again")
	}
	give(c)
}
