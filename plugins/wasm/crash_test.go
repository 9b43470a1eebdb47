package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
)

// startIn starts this test binary as a plugin whose sandboxes are in dir.
func startIn(t testing.TB, dir string) *process.Process {
	t.Helper()
	return startWith(t, dir, envPacks+"="+t.TempDir()) // nothing runs, so no interpreters are needed
}

func startWith(t testing.TB, dir string, env ...string) *process.Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Spec{
		Name: "wasm", Path: exe, Env: append([]string{backend.EnvData + "=" + dir}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := p.Backend().OpenConfig(t.Context(), "c", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	return p
}

// content is what the file of a sandbox holds: each its own.
func content(id string) []byte {
	return []byte(strings.Repeat(id+"\n", 20_000))
}

// acked is what the plugin said was done.
type acked struct {
	mu        sync.Mutex
	sandboxes map[string]bool
	snapshots map[string]string // by the sandbox they are of
}

// work makes sandboxes, files and snapshots until the plugin is gone.
func (a *acked) work(b backend.Backend, worker int, enough func(n int)) {
	ctx := context.Background()
	for i := 0; ; i++ {
		id := fmt.Sprintf("w%d-%d", worker, i)
		sb, err := b.Create(ctx, backend.CreateSpec{
			Config: "c", Session: id, Metadata: backend.Metadata{Config: "c", Session: id, Tenant: "acme", Deployment: "d"},
		})
		if err != nil {
			return
		}
		if _, err := b.WriteFile(ctx, sb.Ref, data("f"), backend.WriteOptions{}, strings.NewReader(string(content(id)))); err != nil {
			return
		}
		a.mu.Lock()
		a.sandboxes[id] = true
		n := len(a.sandboxes)
		a.mu.Unlock()
		enough(n)
		if i%3 == 0 {
			s, err := b.(backend.Snapshotter).Snapshot(ctx, sb.Ref, id, map[string]string{"of": id})
			if err != nil {
				return
			}
			a.mu.Lock()
			a.snapshots[s.ID] = id
			a.mu.Unlock()
		}
		if i%5 == 4 { // some go again
			gone := fmt.Sprintf("w%d-%d", worker, i-1)
			a.mu.Lock()
			delete(a.sandboxes, gone) // from here on either is right
			a.mu.Unlock()
			if b.Delete(ctx, backend.Ref{Config: "c", ID: gone}) != nil {
				return
			}
		}
	}
}

func data(name string) string { return backend.DataDir + "/" + name }

// stuck delivers a head and then nothing until it is released.
type stuck struct {
	head     io.Reader
	reached  func()
	released chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.head.Read(p); n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	s.reached()
	<-s.released
	return 0, errors.New("nobody is there")
}

// TestKilledMidWrite kills the plugin, again and again, while it makes sandboxes,
// files and snapshots. Whatever it had said is there afterwards, and nothing is
// half-made.
func TestKilledMidWrite(t *testing.T) {
	dir := t.TempDir()
	for round, kill := range []int{1, 7, 25} {
		t.Run(fmt.Sprint("after ", kill), func(t *testing.T) { killOnce(t, dir, round, kill) })
	}
}

func killOnce(t *testing.T, dir string, round, kill int) {
	p := startIn(t, dir)
	a := acked{sandboxes: map[string]bool{}, snapshots: map[string]string{}}
	half := backend.Ref{Config: "c", ID: fmt.Sprint("half", round)}
	if _, err := p.Backend().Create(t.Context(), backend.CreateSpec{
		Config: "c", Session: half.ID, Metadata: backend.Metadata{Config: "c", Session: half.ID},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Backend().WriteFile(t.Context(), half, data("f"), backend.WriteOptions{}, strings.NewReader("before")); err != nil {
		t.Fatal(err)
	}
	midway, enough := make(chan struct{}), make(chan struct{})
	reader := &stuck{head: io.LimitReader(zeroReader{}, 3<<20), reached: func() { close(midway) }, released: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Backend().WriteFile(context.Background(), half, data("f"), backend.WriteOptions{}, reader); err == nil {
			t.Error("a write that never ended succeeded")
		}
	})
	var once sync.Once
	for w := range 3 {
		wg.Go(func() {
			a.work(p.Backend(), round*10+w, func(n int) {
				if n >= kill {
					once.Do(func() { close(enough) })
				}
			})
		})
	}
	<-midway
	<-enough
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	close(reader.released)
	wg.Wait()

	verify(t, startIn(t, dir).Backend(), dir, &a, half)
}

// verify looks at everything that a plugin has after another was killed.
func verify(t *testing.T, b backend.Backend, dir string, a *acked, half backend.Ref) {
	ctx := t.Context()
	if got := digest(t, b, half); got != sum([]byte("before")) {
		t.Errorf("the file that was being replaced has other content: %s", got)
	}
	list, err := b.List(ctx, backend.ListFilter{Config: "c"})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, sb := range list {
		listed[sb.ID] = true
		if strings.HasPrefix(sb.ID, "half") {
			continue
		}
		if sb.Metadata.Tenant != "acme" || sb.Created.IsZero() || sb.LastActive.IsZero() {
			t.Errorf("%s is half-made: %+v", sb.ID, sb)
		}
		w, err := b.Walk(ctx, backend.WalkRequest{Ref: sb.Ref, Digests: true})
		if err != nil {
			t.Errorf("%s: %v", sb.ID, err)
		}
		for _, e := range w.Entries {
			if e.Path != data("f") || e.SHA256 != sum(content(sb.ID)) {
				t.Errorf("%s has %+v", sb.ID, e)
			}
		}
		if a.sandboxes[sb.ID] && len(w.Entries) != 1 {
			t.Errorf("%s lost its file", sb.ID)
		}
	}
	for id := range a.sandboxes {
		if !listed[id] {
			t.Errorf("%s is lost", id)
		}
	}
	snaps, err := b.(backend.Snapshotter).ListSnapshots(ctx, "c", nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for i, s := range snaps {
		kept[s.ID] = true
		id := fmt.Sprintf("from-%s-%d", half.ID, i)
		sb, err := b.Create(ctx, backend.CreateSpec{
			Config: "c", Session: id, Snapshot: s.ID, Metadata: backend.Metadata{Config: "c", Session: id, Tenant: "acme"},
		})
		if err != nil {
			t.Errorf("a listed snapshot: %v", err)
			continue
		}
		if got := digest(t, b, sb.Ref); got != sum(content(s.Labels["of"])) {
			t.Errorf("snapshot %s of %s has other content", s.ID, s.Name)
		}
		if err := b.Delete(ctx, sb.Ref); err != nil {
			t.Error(err)
		}
	}
	for id, of := range a.snapshots {
		if !kept[id] {
			t.Errorf("the snapshot of %s is lost", of)
		}
	}
	// What the dead process was making is removed by the first sweep.
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		work, _ := filepath.Glob(filepath.Join(dir, "work", "*"))
		trash, _ := filepath.Glob(filepath.Join(dir, "trash", "*"))
		if len(work) == 1 && len(trash) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("work holds %v, trash %v", work, trash)
		}
	}
}

func digest(t *testing.T, b backend.Backend, ref backend.Ref) string {
	t.Helper()
	r, _, err := b.ReadFile(t.Context(), ref, data("f"))
	if err != nil {
		t.Errorf("%s: %v", ref.ID, err)
		return ""
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Error(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }
