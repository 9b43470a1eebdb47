package store

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// oneRun is what the files of one run cost, without the run.
func oneRun(b *testing.B, s *Store, id string) {
	sb, err := s.Get("c", id)
	if err != nil {
		b.Fatal(err)
	}
	defer sb.Release()
	ctx, done, err := sb.Turn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer done()
	sb.Touch()
	c, err := s.Scratch()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Program("main.py", []byte("print(1)")); err != nil {
		b.Fatal(err)
	}
	before, err := sb.Files(ctx, changes.ScanOptions{})
	if err != nil {
		b.Fatal(err)
	}
	after, err := sb.Files(ctx, changes.ScanOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if before != after {
		b.Fatal("an unchanged tree was scanned twice")
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

func makeOne(b *testing.B, s *Store, id string) {
	sb, err := s.Create(b.Context(), "c", id, Record{Metadata: backend.Metadata{Session: id}}, "")
	if err != nil {
		b.Fatal(err)
	}
	sb.Release()
}

// BenchmarkFresh is the files of a run in a sandbox of its own: made, used, deleted.
//
//	go test -run - -bench . ./plugins/wasm/internal/store
func BenchmarkFresh(b *testing.B) {
	s := openBench(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := strconv.Itoa(i)
		makeOne(b, s, id)
		oneRun(b, s, id)
		if err := s.Delete(b.Context(), "c", id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAgain is the files of a further run in a sandbox that has a hundred.
func BenchmarkAgain(b *testing.B) {
	s := openBench(b)
	makeOne(b, s, "x")
	hundred(b, filepath.Join(s.path(key{"c", "x"}), "data"))
	b.ReportAllocs()
	for b.Loop() {
		oneRun(b, s, "x")
	}
}

func hundred(b *testing.B, dir string) {
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), make([]byte, 1000), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNaive is what the two above are held against: directories made for the
// run and removed after it, and the tree read before and after.
func BenchmarkNaive(b *testing.B) {
	dir := b.TempDir()
	run := func(data string) {
		scratch, err := os.MkdirTemp(dir, "run")
		if err != nil {
			b.Fatal(err)
		}
		defer os.RemoveAll(scratch)
		for _, sub := range []string{"entry", "tmp"} {
			if err := os.Mkdir(filepath.Join(scratch, sub), 0o700); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(scratch, "entry", "main.py"), []byte("print(1)"), 0o600); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			root, err := os.OpenRoot(data)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := new(changes.Index).Scan(b.Context(), root, changes.ScanOptions{}); err != nil {
				b.Fatal(err)
			}
			root.Close()
		}
	}
	b.Run("fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data, err := os.MkdirTemp(dir, "data")
			if err != nil {
				b.Fatal(err)
			}
			run(data)
			if err := os.RemoveAll(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		data := filepath.Join(dir, "kept")
		if err := os.Mkdir(data, 0o700); err != nil {
			b.Fatal(err)
		}
		hundred(b, data)
		b.ReportAllocs()
		for b.Loop() {
			run(data)
		}
	})
}

// rss is the resident memory of this process in bytes.
func rss(t testing.TB) int64 {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the system does not tell")
	}
	var size, resident int64
	if _, err := fmt.Sscan(strings.TrimSpace(string(b)), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// BenchmarkIdle makes ten thousand sandboxes, leaves them alone, and reports what
// they cost: memory, and the time to open the store and to look at each.
func BenchmarkIdle(b *testing.B) {
	const sandboxes = 10_000
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	before := rss(b)
	for i := range sandboxes {
		makeOne(b, s, strconv.Itoa(i))
	}
	grown := rss(b) - before
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for _, part := range []struct {
		name string
		do   func(s *Store) error
	}{
		{"open", func(s *Store) error { return nil }},
		{"count", func(s *Store) error { _, err := s.Count("c"); return err }},
		{"look", func(s *Store) error {
			return s.IDs("c", func(id string) error { _, _, err := s.Look("c", id); return err })
		}},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				s, err := Open(dir, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := part.do(s); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
			b.ReportMetric(float64(grown)/sandboxes, "B/sandbox")
		})
	}
}
