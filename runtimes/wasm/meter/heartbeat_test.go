package meter

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// hostile exports shapes of code that is hard to interrupt.
func hostile() []byte {
	a := &assembler{count: true}
	a.mem(1024, 1024) // 64 MiB
	forever := func(b *buffer, body func()) {
		b.op(opLoop, blockVoid)
		body()
		b.op(opBr, 0, opEnd)
	}
	a.exportFn("loop", "", "", "", func(b *buffer) { forever(b, func() {}) })
	tree := a.imported + uint32(len(a.functions))
	a.exportFn("tree", "i", "", "", func(b *buffer) {
		b.get(0)
		b.op(opIf, blockVoid)
		for range 2 {
			b.get(0)
			b.i32(1)
			b.op(opI32Sub)
			b.call(tree)
		}
		b.op(opEnd)
	})
	a.exportFn("fill", "", "", "", func(b *buffer) {
		forever(b, func() {
			b.i32(0)
			b.i32(1)
			b.i32(64<<20 - 1)
			b.op(opPrefixMisc, miscMemoryFill, 0)
		})
	})
	a.exportFn("copy", "", "", "", func(b *buffer) {
		forever(b, func() {
			b.i32(1)
			b.i32(0)
			b.i32(64<<20 - 1)
			b.op(opPrefixMisc, miscMemoryCopy, 0, 0)
		})
	})
	// Deep recursion that does all its work on the way back, a little below what
	// makes a function look when it is left.
	back := a.imported + uint32(len(a.functions))
	a.fn("i", "i", "", func(b *buffer) {
		b.get(0)
		b.op(opIf, i32Type)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub)
		b.call(back)
		for range 115 {
			b.i32(7)
			b.op(opI32Mul)
		}
		b.op(opElse)
		b.i32(1)
		b.op(opEnd)
	})
	a.exportFn("unwind", "", "", "", func(b *buffer) {
		forever(b, func() {
			b.i32(400_000)
			b.call(back)
			b.op(opDrop)
		})
	})
	// One pass of a loop that is as long as it may be.
	a.exportFn("straight", "", "", "i", func(b *buffer) {
		forever(b, func() {
			for range 200_000 {
				b.get(0)
				b.i32(7)
				b.op(opI32Mul)
				b.set(0)
			}
		})
	})
	return a.bytes()
}

// TestHeartbeat measures how late a goroutine wakes up while guests spin on all
// processors and the collector runs. It reports, for the machine may be busy with
// other things; what it checks is that every shape ends at its deadline.
func TestHeartbeat(t *testing.T) {
	span := 400 * time.Millisecond
	if brief() {
		span = 50 * time.Millisecond
	}
	r := newRuntime(t)
	onSlice(t, r, func(ctx context.Context, c Counter) {
		if ctx.Err() != nil {
			panic(ErrOutOfFuel)
		}
		runtime.Gosched()
		for int64(c.Get()) < 0 {
			c.Set(c.Get() + 1<<20)
		}
	})
	compiled, err := r.CompileModule(context.Background(), rewrite(t, hostile(), Options{Fuel: &Fuel{}}).Module)
	if err != nil {
		t.Fatal(err)
	}
	// For comparison: what the machine does to goroutines that the scheduler can
	// preempt at any place.
	t.Run("goroutines", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; {
					for range 1 << 20 {
						n++
					}
				}
			})
		}
		measure(t, ctx, &wg)
	})
	for _, shape := range []struct {
		name string
		args []uint64
	}{{"loop", nil}, {"tree", []uint64{60}}, {"fill", nil}, {"copy", nil}, {"unwind", nil}, {"straight", nil}} {
		t.Run(shape.name, func(t *testing.T) {
			var guests []api.Module
			for range 8 {
				m, err := r.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithName(""))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close(context.Background())
				guests = append(guests, m)
			}
			ctx, cancel := context.WithTimeout(t.Context(), span)
			defer cancel()
			var wg sync.WaitGroup
			for _, m := range guests {
				wg.Go(func() {
					if _, err := m.ExportedFunction(shape.name).Call(ctx, shape.args...); !errors.Is(err, ErrOutOfFuel) {
						t.Errorf("ended with %v", err)
					}
				})
			}
			measure(t, ctx, &wg)
		})
	}
}

// measure collects garbage and takes the heartbeat until ctx ends, and then waits
// for the goroutines of the test.
func measure(t *testing.T, ctx context.Context, wg *sync.WaitGroup) {
	t.Helper()
	wg.Go(func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	})
	worst := heartbeat(ctx)
	deadline, _ := ctx.Deadline()
	wg.Wait()
	t.Logf("the heartbeat was %v late at worst; the last of 8 ended %v after the deadline",
		worst.Round(100*time.Microsecond), time.Since(deadline).Round(100*time.Microsecond))
}

// heartbeat wakes up every millisecond until ctx ends, and returns by how much the
// latest was late.
func heartbeat(ctx context.Context) (worst time.Duration) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return max(worst, time.Since(last)-time.Millisecond)
		case <-tick.C:
			now := time.Now()
			worst = max(worst, now.Sub(last)-time.Millisecond)
			last = now
		}
	}
}

var _ Counter = api.MutableGlobal(nil)
