package codecache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// add is (func (export "add") (param i32 i32) (result i32) (i32.add ...)).
var add = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 7, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f,
	3, 2, 1, 0,
	5, 3, 1, 0, 1,
	7, 7, 1, 3, 'a', 'd', 'd', 0, 0,
	10, 9, 1, 7, 0, 0x20, 0, 0x20, 1, 0x6a, 0x0b,
	11, 15, 2, 0, 0x41, 8, 0x0b, 3, 'a', 'b', 'c', 0, 0x41, 9, 0x0b, 1, 'x',
}

// metered is how the tests compile.
var metered = meter.Options{Fuel: &meter.Fuel{}, DropData: true}

// load compiles add and checks that the code works.
func load(t *testing.T, dir string) *Module {
	t.Helper()
	ctx := context.Background()
	m, err := Cache{Dir: dir}.Compile(ctx, add, metered)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(ctx) })
	if len(m.Data) != 2 || m.Data[0].Offset != 8 || string(m.Data[0].Data) != "abc" || m.Data[1].Offset != 9 || string(m.Data[1].Data) != "x" {
		t.Errorf("dropped data is %+v", m.Data)
	}
	if _, err := m.Runtime.NewHostModuleBuilder(meter.SliceModule).NewFunctionBuilder().WithFunc(func() {}).Export(meter.SliceName).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	inst, err := m.Runtime.InstantiateModule(ctx, m.Code, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	res, err := inst.ExportedFunction("add").Call(ctx, 40, 2)
	if err != nil || res[0] != 42 {
		t.Fatalf("add: %v, %v", res, err)
	}
	return m
}

// files returns the paths of all files below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// code returns the path of the one cached file of machine code.
func code(t *testing.T, dir string) string {
	t.Helper()
	for _, p := range files(t, dir) {
		if strings.Contains(p, "/wazero-") {
			return p
		}
	}
	t.Fatalf("no machine code below %s", dir)
	return ""
}

// rewrittenFile returns the path of the rewritten module.
func rewrittenFile(t *testing.T, dir string) string {
	t.Helper()
	m, err := filepath.Glob(dir + "/*.wasm")
	if err != nil || len(m) != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	return m[0]
}

func TestReuse(t *testing.T) {
	dir := t.TempDir()
	if m := load(t, dir); m.Cached || m.CacheErr != nil {
		t.Errorf("first compile: cached %v, %v", m.Cached, m.CacheErr)
	}
	if m := load(t, dir); !m.Cached || m.CacheErr != nil {
		t.Errorf("second compile: cached %v, %v", m.Cached, m.CacheErr)
	}
}

func TestOptionsAreKeptApart(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	load(t, dir)
	other := metered
	other.Fuel = &meter.Fuel{Seed: 7}
	m, err := Cache{Dir: dir}.Compile(ctx, add, other)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(ctx)
	if m.Cached || m.Key == newJob(add, metered).key {
		t.Error("code that was metered otherwise was taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(rewritten{add, []meter.Segment{{Offset: 8, Data: []byte("abc")}, {Offset: 9}}}.encode())
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := decode(b); ok && string(r.encode()) != string(b) {
			t.Errorf("%x is read as %x", b, r.encode())
		}
	})
}

func TestDamageIsRepaired(t *testing.T) {
	damage := map[string]func(t *testing.T, dir string) error{
		"truncated": func(t *testing.T, dir string) error { return os.Truncate(code(t, dir), 10) },
		"empty":     func(t *testing.T, dir string) error { return os.Truncate(code(t, dir), 0) },
		"flipped bytes": func(t *testing.T, dir string) error {
			b, err := os.ReadFile(code(t, dir))
			for i := range b {
				b[i] ^= 0x55
			}
			return errors.Join(err, os.WriteFile(code(t, dir), b, 0o600))
		},
		"one flipped bit at the end": func(t *testing.T, dir string) error {
			b, err := os.ReadFile(code(t, dir))
			b[len(b)-1] ^= 1
			return errors.Join(err, os.WriteFile(code(t, dir), b, 0o600))
		},
		"removed": func(t *testing.T, dir string) error { return os.Remove(code(t, dir)) },
		"foreign file beside it": func(t *testing.T, dir string) error {
			return os.WriteFile(code(t, dir)+"x", []byte("x"), 0o600)
		},
		"replaced by a link": func(t *testing.T, dir string) error {
			p := code(t, dir)
			return errors.Join(os.Rename(p, dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", p))
		},
		"rewritten module damaged": func(t *testing.T, dir string) error {
			p := rewrittenFile(t, dir)
			b, err := os.ReadFile(p)
			b[len(b)-1] ^= 1
			return errors.Join(err, os.WriteFile(p, b, 0o600))
		},
		"rewritten module removed": func(t *testing.T, dir string) error { return os.Remove(rewrittenFile(t, dir)) },
		"digest removed": func(t *testing.T, dir string) error {
			m, err := filepath.Glob(dir + "/*.sum")
			return errors.Join(err, os.Remove(m[0]))
		},
		"digest damaged": func(t *testing.T, dir string) error {
			m, err := filepath.Glob(dir + "/*.sum")
			return errors.Join(err, os.WriteFile(m[0], []byte("{"), 0o600))
		},
		"digest is a directory": func(t *testing.T, dir string) error {
			m, err := filepath.Glob(dir + "/*.sum")
			return errors.Join(err, os.Remove(m[0]), os.MkdirAll(m[0]+"/x", 0o700))
		},
	}
	for name, hurt := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			load(t, dir)
			if err := hurt(t, dir); err != nil {
				t.Fatal(err)
			}
			if m := load(t, dir); m.Cached || m.CacheErr != nil {
				t.Errorf("after the damage: cached %v, %v", m.Cached, m.CacheErr)
			}
			if m := load(t, dir); !m.Cached {
				t.Error("the entry was not repaired")
			}
		})
	}
}

func TestUnusableDirectory(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	real := t.TempDir()
	linked := t.TempDir() + "/link"
	if err := os.Symlink(real, linked); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"writable by all": open, "a file": file, "a link": linked} {
		if m := load(t, dir); m.Cached || m.CacheErr == nil {
			t.Errorf("%s: cached %v, %v", name, m.Cached, m.CacheErr)
		}
	}
	if got := files(t, open); len(got) != 0 {
		t.Errorf("files were left: %v", got)
	}
}

func TestConcurrentCompilesShareTheWork(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	const n = 8
	var cached [n]bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			m, err := Cache{Dir: dir}.Compile(ctx, add, metered)
			if err != nil {
				t.Error(err)
				return
			}
			cached[i] = m.Cached
			_ = m.Close(ctx)
		})
	}
	wg.Wait()
	fresh := 0
	for _, c := range cached {
		if !c {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d compiles, want 1", fresh)
	}
}

func TestErrorsAreAboutTheModule(t *testing.T) {
	if _, err := (Cache{Dir: t.TempDir()}).Compile(context.Background(), []byte("not wasm"), metered); err == nil {
		t.Error("garbage compiled")
	}
	dir := t.TempDir()
	e, err := openEntry(context.Background(), dir, newJob(add, metered).key)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Cache{Dir: dir}).Compile(ctx, add, metered); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a held lock with a cancelled context: %v", err)
	}
}

// What is not there is made by another process, here by another call; only what that
// did not leave is compiled here.
func TestElsewhere(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	broken := errors.New("broken")
	calls := 0
	c := Cache{Dir: dir, Elsewhere: func(context.Context) error { calls++; return broken }}
	if m, err := c.Compile(ctx, add, metered); !errors.Is(err, ErrElsewhere) || !errors.Is(err, broken) || m != nil {
		t.Errorf("a failure elsewhere: %v, %v", m, err)
	}
	c.Elsewhere = func(ctx context.Context) error {
		calls++
		m, err := Cache{Dir: dir}.Compile(ctx, add, metered)
		if err == nil {
			err = m.Close(ctx)
		}
		return err
	}
	for range 2 {
		m, err := c.Compile(ctx, add, metered)
		if err != nil || !m.Cached {
			t.Fatalf("%v, %v", m, err)
		}
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want one that failed and one that filled the cache", calls)
	}
	c = Cache{Dir: t.TempDir(), Elsewhere: func(context.Context) error { return nil }}
	m, err := c.Compile(ctx, add, metered)
	if err != nil || m.Cached {
		t.Fatalf("nothing was left: %v, %v", m, err)
	}
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	c = Cache{Dir: t.TempDir(), Elsewhere: func(context.Context) error { cancel(); return broken }}
	if _, err := c.Compile(ended, add, metered); !errors.Is(err, context.Canceled) || errors.Is(err, ErrElsewhere) {
		t.Errorf("whoever gives up: %v", err)
	}
}
