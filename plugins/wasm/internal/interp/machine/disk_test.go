package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

func TestImageIsKept(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, Host{Cache: codecache.Cache{Dir: dir}})
	open := func() *Machine {
		t.Helper()
		m := f.machine()
		if m.CacheErr() != nil {
			t.Error(m.CacheErr())
		}
		use(t, m, newRun(t, guest.Program{}))
		f.close(m)
		return m
	}
	if m := open(); m.Cached() || f.boots != 1 {
		t.Errorf("cached %v, %d boots", m.Cached(), f.boots)
	}
	if m := open(); !m.Cached() || f.boots != 1 || string(m.State()) != "state" {
		t.Errorf("cached %v, %d boots", m.Cached(), f.boots)
	}
	for name, change := range map[string]func(){
		"identity":  func() { f.cfg.Identity = []byte("x") },
		"arguments": func() { f.cfg.Argv = []string{"tiny", "x"} },
		"variables": func() { f.cfg.Env = map[string]string{"A": "b"} },
		"module": func() {
			f.cfg.Module = &codecache.Module{Runtime: f.cfg.Module.Runtime, Code: f.cfg.Module.Code, Data: f.cfg.Module.Data, Key: "x"}
		},
	} {
		before := f.boots
		change()
		if open().Cached() || !open().Cached() || f.boots != before+1 {
			t.Errorf("%s: %d boots", name, f.boots-before)
		}
	}
}

func TestDamagedImageIsMadeAnew(t *testing.T) {
	for name, hurt := range map[string]func(b []byte) []byte{
		"truncated":             func(b []byte) []byte { return b[:len(b)-1] },
		"empty":                 func([]byte) []byte { return nil },
		"longer":                func(b []byte) []byte { return append(b, 0) },
		"flipped in the memory": func(b []byte) []byte { b[len(b)-5000] ^= 1; return b },
		"flipped in the header": func(b []byte) []byte { b[len(format)+20] ^= 1; return b },
		"of another format":     func(b []byte) []byte { b[0] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := newFixture(t, Host{Cache: codecache.Cache{Dir: dir}})
			f.close(f.machine())
			files, err := filepath.Glob(dir + "/*.image")
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(files[0], hurt(b), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, cached := range []bool{false, true} {
				m := f.machine()
				if m.Cached() != cached || m.CacheErr() != nil {
					t.Errorf("cached %v, %v", m.Cached(), m.CacheErr())
				}
				use(t, m, newRun(t, guest.Program{}))
				f.close(m)
			}
		})
	}
}

func TestCacheIsOptional(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, Host{Cache: codecache.Cache{Dir: open}})
	m := f.machine()
	defer f.close(m)
	if m.Cached() || m.CacheErr() == nil {
		t.Errorf("cached %v, %v", m.Cached(), m.CacheErr())
	}
	use(t, m, newRun(t, guest.Program{}))
}

func FuzzDecode(f *testing.F) {
	mem := make([]byte, 2*region.PageBytes)
	copy(mem[5000:], "content")
	b, err := (&image{region.NewImage(mem), []uint64{1}, []byte("s")}).encode("key")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(b[:40], true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal { // what a forger could do, who may not write here
			b = sealed(b)
		}
		i, err := decode(b, "key")
		if err != nil {
			return
		}
		r, err := region.New(i.memory.Bytes())
		if err != nil {
			t.Skip(err)
		}
		defer r.Unmap()
		if err := r.Load(i.memory, false); err != nil {
			t.Error(err)
		}
	})
}
