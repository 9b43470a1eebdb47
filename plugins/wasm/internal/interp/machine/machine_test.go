package machine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is a module with one page of memory, the data "data" at 16, a mutable global
// "sp" of 7, and store(address, byte), load(address) and grow(pages).
var tiny = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 11, 2, 0x60, 2, 0x7f, 0x7f, 0, 0x60, 1, 0x7f, 1, 0x7f,
	3, 4, 3, 0, 1, 1,
	5, 3, 1, 0, 1,
	6, 6, 1, 0x7f, 1, 0x41, 7, 0x0b,
	7, 34, 5, 3, 'm', 'e', 'm', 2, 0, 2, 's', 'p', 3, 0, 5, 's', 't', 'o', 'r', 'e', 0, 0, 4, 'l', 'o', 'a', 'd', 0, 1, 4, 'g', 'r', 'o', 'w', 0, 2,
	10, 26, 3, 9, 0, 0x20, 0, 0x20, 1, 0x3a, 0, 0, 0x0b, 7, 0, 0x20, 0, 0x2d, 0, 0, 0x0b, 6, 0, 0x20, 0, 0x40, 0, 0x0b,
	11, 10, 1, 0, 0x41, 16, 0x0b, 4, 'd', 'a', 't', 'a',
}

const imagePages = 8

// fixture is a machine of tiny whose boot writes "boot" to each page and 9 to sp.
type fixture struct {
	t     testing.TB
	cfg   Config
	boots int
}

func newFixture(t testing.TB, host Host) *fixture {
	t.Helper()
	m, err := guest.Load(t.Context(), codecache.Cache{}, tiny, meter.Options{DropData: true})
	if err != nil {
		t.Fatal(err)
	}
	host.Regions = region.NewPool(4)
	f := &fixture{t: t}
	f.cfg = Config{Host: host, Module: m, Argv: []string{"tiny"}, Globals: []string{"sp"}, Boot: f.boot}
	t.Cleanup(func() { _ = errors.Join(m.Close(context.Background()), host.Regions.Close()) })
	return f
}

func (f *fixture) boot(ctx context.Context, b *Boot) ([]byte, error) {
	f.boots++
	if _, err := b.ExportedFunction("grow").Call(ctx, imagePages-1); err != nil {
		return nil, err
	}
	for page := range uint64(imagePages) {
		for i, c := range []byte("boot") {
			if _, err := b.ExportedFunction("store").Call(ctx, page*region.PageBytes+uint64(i), uint64(c)); err != nil {
				return nil, err
			}
		}
	}
	g, err := b.global("sp")
	if err != nil {
		return nil, err
	}
	g.Set(9)
	return []byte("state"), nil
}

// image is the memory that instances start with.
func bootedMemory() []byte {
	mem := make([]byte, imagePages*region.PageBytes)
	for page := range imagePages {
		copy(mem[page*region.PageBytes:], "boot")
	}
	copy(mem[16:], "data")
	return mem
}

func (f *fixture) machine() *Machine {
	f.t.Helper()
	m, err := New(context.Background(), f.cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *fixture) close(m *Machine) {
	f.t.Helper()
	if err := m.Close(context.Background()); err != nil {
		f.t.Error(err)
	}
}

func newRun(t testing.TB, p guest.Program) *guest.Run {
	t.Helper()
	if p.Data.Root == nil {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		p.Data.Root = root
	}
	r, err := guest.New(context.Background(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// use takes an instance, checks that it is as booted, and spoils all its memory.
func use(t testing.TB, m *Machine, r *guest.Run) {
	t.Helper()
	inst, err := m.Take(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if err := inst.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if g, err := inst.global("sp"); err != nil || g.Get() != 9 {
		t.Errorf("sp: %v", err)
	}
	check := func() {
		t.Helper()
		b, _ := inst.Memory().Read(0, inst.Memory().Size())
		if !bytes.Equal(b[:min(len(b), imagePages*region.PageBytes)], bootedMemory()) || !zero(b[imagePages*region.PageBytes:]) {
			t.Error("the memory is not that of the image")
		}
	}
	check()
	if _, err := inst.ExportedFunction("grow").Call(r.Context(context.Background()), 100); err != nil {
		t.Error(err)
	}
	check()
	b, _ := inst.Memory().Read(0, inst.Memory().Size())
	if len(b) != (imagePages+100)*region.PageBytes {
		t.Errorf("the memory has %d bytes", len(b))
	}
	fill(b)
}

// fill spoils memory.
func fill(b []byte) {
	b[0] = 0xee
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// zero tells whether all bytes are.
func zero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// parked waits until m has n instances.
func parked(m *Machine, n int) {
	for m.Parked() != n {
		time.Sleep(time.Millisecond) // of the bubble: everybody else has a turn
	}
}

func TestNothingPassesFromInstanceToInstance(t *testing.T) {
	for name, cow := range map[string]bool{"copied": false, "mapped": true} {
		for _, n := range []int{0, 2} {
			f := newFixture(t, Host{Parked: n, Choose: func(*region.Pool, *region.Image) region.Choice { return region.Choice{COW: cow} }})
			t.Run(name, func(t *testing.T) {
				m := f.machine()
				defer f.close(m)
				if string(m.State()) != "state" || m.ImageBytes() != imagePages*region.PageBytes {
					t.Errorf("state %q, %d bytes", m.State(), m.ImageBytes())
				}
				for range 20 {
					use(t, m, newRun(t, guest.Program{}))
				}
			})
		}
	}
}

// Eight goroutines take and spoil 25 instances each, of two that wait and four
// regions that are kept.
func TestInstancesAreApart(t *testing.T) {
	f := newFixture(t, Host{Parked: 2})
	m := f.machine()
	defer f.close(m)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				use(t, m, newRun(t, guest.Program{}))
			}
		})
	}
	wg.Wait()
}

func TestMemoryLimitIsTheRuns(t *testing.T) {
	f := newFixture(t, Host{Parked: 1})
	m := f.machine()
	defer f.close(m)
	const limit = (imagePages + 2) * region.PageBytes
	for range 3 {
		r := newRun(t, guest.Program{MemoryBytes: limit})
		inst, err := m.Take(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := inst.Memory().Grow(3); ok {
			t.Error("grew beyond the limit")
		}
		if _, ok := inst.Memory().Grow(2); !ok {
			t.Error("did not grow up to the limit")
		}
		r.Begin()
		if res := r.Outcome(context.Background(), true, 0, nil); !res.MemoryLimited || res.PeakMemoryBytes != limit {
			t.Errorf("%+v", res)
		}
		_ = inst.Close(context.Background())
		use(t, m, newRun(t, guest.Program{}))
	}
}

func TestStartIsWithoutTheImage(t *testing.T) {
	f := newFixture(t, Host{Parked: 1})
	m := f.machine()
	defer f.close(m)
	for range 5 {
		use(t, m, newRun(t, guest.Program{}))
		inst, err := m.Start(newRun(t, guest.Program{}), []string{"x"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := inst.Memory().Read(0, inst.Memory().Size())
		want := make([]byte, region.PageBytes)
		copy(want[16:], "data")
		if !bytes.Equal(b, want) {
			t.Error("the memory is not that of a new instance")
		}
		fill(b)
		_ = inst.Close(context.Background())
	}
}

func TestInstancesWaitAndAreGivenUp(t *testing.T) {
	f := newFixture(t, Host{Parked: 3})
	f.cfg.Choose = func(*region.Pool, *region.Image) region.Choice { return region.Choice{} }
	runs := []*guest.Run{newRun(t, guest.Program{}), newRun(t, guest.Program{}), newRun(t, guest.Program{})}
	synctest.Test(t, func(t *testing.T) {
		m := f.machine()
		parked(m, 3)
		for range 3 {
			var insts []*Instance
			for _, r := range runs {
				inst, err := m.Take(r)
				if err != nil {
					t.Fatal(err)
				}
				insts = append(insts, inst)
			}
			parked(m, 3)
			for _, inst := range insts {
				_ = inst.Close(context.Background())
			}
		}
		synctest.Wait()
		if n := f.cfg.Regions.Idle(m.image.memory); n == 0 {
			t.Error("no memory is kept for the next instance")
		}
		time.Sleep(DefaultIdle + time.Second)
		synctest.Wait()
		if m.Parked() != idleParked || f.cfg.Regions.Idle(m.image.memory) != 0 {
			t.Errorf("after a while %d instances and %d regions", m.Parked(), f.cfg.Regions.Idle(m.image.memory))
		}
		use(t, m, runs[0])
		parked(m, 3)
		f.close(m)
	})
}

// An instance that cannot be made is no use of the machine: the keeper, told of one,
// would try again at once and for ever.
func TestFailureIsNoUse(t *testing.T) {
	f := newFixture(t, Host{})
	m := f.machine()
	f.close(m) // and the keeper with it
	m.wasUsed()
	m.cfg.Globals = []string{"absent"}
	if _, err := m.fill(0); err == nil {
		t.Fatal("an instance without its global was made")
	}
	if m.wasUsed() {
		t.Error("the failure counts as use")
	}
}

func TestBootFails(t *testing.T) {
	f := newFixture(t, Host{Cache: codecache.Cache{Dir: t.TempDir()}})
	failure := errors.New("no boot")
	f.cfg.Boot = func(context.Context, *Boot) ([]byte, error) { return nil, failure }
	if _, err := New(context.Background(), f.cfg); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	f.cfg.Boot = f.boot
	f.cfg.Globals = []string{"absent"}
	if _, err := New(context.Background(), f.cfg); err == nil {
		t.Error("a global that is not there was accepted")
	}
	f.cfg.Boot = nil
	m := f.machine()
	defer f.close(m)
	if _, err := m.Take(newRun(t, guest.Program{})); err == nil {
		t.Error("an instance without an image was taken")
	}
}
