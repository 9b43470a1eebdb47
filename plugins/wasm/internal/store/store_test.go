package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{Quota: rootfs.Limits{Bytes: 1000, Entries: 100}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noStaging checks that nothing is left of what was being made.
func noStaging(t *testing.T, s *Store) {
	t.Helper()
	left, err := os.ReadDir(s.work)
	if err != nil || len(left) != 1 { // what is made ahead
		t.Errorf("staging holds %v, %v", left, err)
	}
	ready, err := os.ReadDir(filepath.Join(s.work, readyDir))
	if err != nil || len(ready) > maxReady {
		t.Errorf("%d sandboxes are ready: %v", len(ready), err)
	}
}

func record(id string) Record {
	return Record{Metadata: backend.Metadata{Config: "c", Session: id, Tenant: "acme"}}
}

func create(t *testing.T, s *Store, id string) *Sandbox {
	t.Helper()
	b, err := s.Create(t.Context(), "c", id, record(id), "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSandboxSurvivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := create(t, s, "one")
	if err := b.Data.WriteFile("a.txt", []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	created := b.Record.Created
	b.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	b, err := s.Get("c", "one")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	got, err := b.Data.ReadFile("a.txt")
	if err != nil || string(got) != "kept" {
		t.Errorf("file = %q, %v", got, err)
	}
	if bytes, entries := b.Quota.Used(); bytes != 4 || entries != 1 {
		t.Errorf("account after a restart: %d bytes, %d entries", bytes, entries)
	}
	if !b.Record.Created.Equal(created) || b.Record.Metadata.Tenant != "acme" {
		t.Errorf("record = %+v", b.Record)
	}
}

func TestCreateTwiceIsOneSandbox(t *testing.T) {
	s := open(t, t.TempDir())
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() {
			b, err := s.Create(t.Context(), "c", "same", record("same"), "")
			if err == nil {
				b.Release()
			}
			errs <- err
		})
	}
	wg.Wait()
	made := 0
	for range cap(errs) {
		switch err := <-errs; {
		case err == nil:
			made++
		case !errors.Is(err, ErrExists):
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d creates succeeded, want one", made)
	}
	noStaging(t, s)
}

func TestNamesThatAreNoDirectories(t *testing.T) {
	s := open(t, t.TempDir())
	for _, n := range []string{"", ".", "..", "a/b", "../c", "a\x00", "a b", string(make([]byte, 65))} {
		if _, err := s.Create(t.Context(), "c", n, record(n), ""); err == nil {
			t.Errorf("Create(%q) succeeded", n)
		}
		if _, err := s.Create(t.Context(), n, "x", record("x"), ""); err == nil {
			t.Errorf("Create in config %q succeeded", n)
		}
		if _, _, err := s.Look("c", n); !errors.Is(err, ErrAbsent) {
			t.Errorf("Look(%q) = %v", n, err)
		}
		if err := s.Delete(context.Background(), n, n); !errors.Is(err, ErrAbsent) {
			t.Errorf("Delete(%q) = %v", n, err)
		}
	}
}

func TestDeleteCancelsAndWaits(t *testing.T) {
	s := open(t, t.TempDir())
	b := create(t, s, "x")
	ctx, done, err := b.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error)
	go func() { deleted <- s.Delete(context.Background(), "c", "x") }()
	<-ctx.Done() // the run is told
	if !b.Deleted() {
		t.Error("the run cannot tell why it ended")
	}
	if _, err := s.Get("c", "x"); !errors.Is(err, ErrAbsent) {
		t.Errorf("Get during the deletion = %v, want absent", err)
	}
	select {
	case err := <-deleted:
		t.Fatalf("Delete returned %v while the sandbox was in use", err)
	default:
	}
	// The name is free at once, and the newcomer has nothing of the old.
	fresh := create(t, s, "x")
	if _, err := fresh.Data.Stat("a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new sandbox is not empty: %v", err)
	}
	fresh.Release()
	done()
	b.Release()
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %v", left)
	}
	if _, err := s.Get("c", "x"); err != nil {
		t.Errorf("the new sandbox went with the old: %v", err)
	} else {
		fresh.Release()
	}
}

func TestTurnIsFairAndEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	b := create(t, s, "x")
	defer b.Release()
	_, done, err := b.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Turn(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a dead context: %v", err)
	}
	done()
	_, done, err = b.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done()
}

func TestCleanRemovesTheDeadAndSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	living := open(t, dir)
	run, err := living.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "work", "dead", "run")
	trash := filepath.Join(dir, "trash", "old")
	for _, d := range []string{dead, trash} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, dir).Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dead, trash} {
		if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", d, err)
		}
	}
	if _, err := os.Stat(run.dir); err != nil {
		t.Errorf("a run directory of a living process was taken away: %v", err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedRecords(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for id, content := range map[string]string{
		"garbage": "{", "future": `{"schema":99}`, "moved": `{"schema":1,"config":"c","id":"other"}`,
	} {
		b := create(t, s, id)
		b.Release()
		if err := os.WriteFile(filepath.Join(s.path(key{"c", id}), recordFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get("c", id); err == nil || errors.Is(err, ErrAbsent) {
			t.Errorf("%s: Get = %v; a damaged record is neither fine nor proof of absence", id, err)
		}
	}
}

func TestIdleSandboxesGiveUpTheirDescriptors(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range maxIdle + 10 {
		create(t, s, fmt.Sprintf("s%d", i)).Release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) != maxIdle || len(s.open) != maxIdle {
		t.Errorf("%d idle, %d open, want %d", len(s.idle), len(s.open), maxIdle)
	}
}

func TestActivity(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	s, err := Open(t.TempDir(), Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := create(t, s, "x")
	defer b.Release()
	at = at.Add(time.Hour)
	b.Touch()
	if _, active, err := s.Look("c", "x"); err != nil || !active.Equal(at) {
		t.Errorf("active = %v, %v, want %v", active, err, at)
	}
	if err := b.SetExpires(at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r, _, err := s.Look("c", "x"); err != nil || !r.Expires.Equal(at.Add(time.Hour)) {
		t.Errorf("record = %+v, %v", r, err)
	}
}

// Many goroutines use, delete and make the same few sandboxes.
func TestHammer(t *testing.T) {
	s := open(t, t.TempDir())
	const workers, rounds, ids = 8, 60, 3
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("s%d", (w+i)%ids)
				switch i % 4 {
				case 0:
					if b, err := s.Create(context.Background(), "c", id, record(id), ""); err == nil {
						b.Release()
					} else if !errors.Is(err, ErrExists) && !errors.Is(err, ErrAbsent) {
						t.Error(err)
					}
				case 3:
					if err := s.Delete(context.Background(), "c", id); err != nil && !errors.Is(err, ErrAbsent) {
						t.Error(err)
					}
				default:
					b, err := s.Get("c", id)
					if err != nil {
						continue
					}
					if _, done, err := b.Turn(context.Background()); err == nil {
						b.Touch()
						done()
					}
					b.Release()
				}
			}
		})
	}
	wg.Wait()
	for i := range ids {
		if err := s.Delete(context.Background(), "c", fmt.Sprintf("s%d", i)); err != nil && !errors.Is(err, ErrAbsent) {
			t.Error(err)
		}
	}
	if err := s.Clean(t.Context()); err != nil { // what a Get held at that moment
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %d entries", len(left))
	}
}
