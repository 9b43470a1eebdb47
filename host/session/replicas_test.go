package session_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/redis"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/internal/redistest"
	"github.com/caisson-run/caisson/sdk/backend"
)

const replicaSessions, replicaUses = 20, 200

// fleet is two replicas, each with its own connections to one Redis and its own client
// of one account.
type fleet struct {
	world    *world
	managers [2]*session.Manager
}

func newFleet(t *testing.T, w *world, addr string, o binding.Options) *fleet {
	t.Helper()
	f := &fleet{world: w}
	namespace := "t" + rand.Text()
	for i := range f.managers {
		s, err := redis.New(redis.Options{Addrs: []string{addr}, Namespace: namespace, Store: o})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		view := w.account.View()
		// A provider takes its time, which is when the others come.
		view.After = func(ctx context.Context, op, _ string) error {
			if op == "Create" {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		f.managers[i] = w.manager(func(o *session.ManagerOptions) {
			o.Store, o.Targets = s, account.NewReplica(t, map[string]*account.Account{"main": view}, "main")
		})
	}
	return f
}

// load uses every session from both replicas at once and returns what failed.
func (f *fleet) load(ctx context.Context) error {
	errs := make([]error, replicaUses)
	var wg sync.WaitGroup
	for i := range replicaUses {
		wg.Go(func() {
			_, errs[i] = f.managers[i%2].Exec(ctx, fmt.Sprintf("s%d", i/2%replicaSessions), pwd)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *fleet) want(t *testing.T, what string, made, live int) {
	t.Helper()
	if n := len(f.world.account.Made()); n != made {
		t.Errorf("%s: %d sandboxes were made, want %d", what, n, made)
	}
	if n := len(f.world.account.Live()); n != live {
		t.Errorf("%s: %d sandboxes live, want %d", what, n, live)
	}
}

// The first criterion, over a real Redis that also forgets everything.
func TestReplicasOnOneRedis(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		server := redistest.Start(t)
		f := newFleet(t, w, server.Addr, binding.Options{})
		load := func(what string, made int) {
			t.Helper()
			if err := f.load(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			f.want(t, what, made, replicaSessions)
		}
		load("first uses", replicaSessions)
		for _, sb := range w.account.Live() {
			w.account.Vanish(sb.ID)
		}
		load("sandboxes vanished", 2*replicaSessions)
		server.Kill()
		server.Start(t)
		load("Redis restarted empty", 2*replicaSessions)
	})
}

// A Redis that comes and goes under the load costs errors and time, and neither a
// sandbox twice nor one lost.
func TestReplicasOnAFailingRedis(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		server := redistest.Start(t)
		f := newFleet(t, w, server.Addr, binding.Options{OpTimeout: 500 * time.Millisecond, Lease: 2 * time.Second})
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				err := f.load(t.Context())
				for _, e := range unjoin(err) {
					if !errors.Is(e, binding.ErrUnavailable) && !errors.Is(e, binding.ErrOwnershipLost) {
						t.Errorf("an error that is not the store's: %v", e)
					}
				}
			}
		})
		for range 5 {
			time.Sleep(50 * time.Millisecond)
			server.Kill()
			server.Start(t)
		}
		stop.Store(true)
		wg.Wait()
		// Clients notice within about a second that it is back.
		for deadline := time.Now().Add(30 * time.Second); ; {
			err := f.load(t.Context())
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		before := len(w.account.Made())
		if err := f.load(t.Context()); err != nil {
			t.Error(err)
		}
		f.want(t, "in the end", before, replicaSessions)
		ids := map[string]string{}
		for i := range replicaSessions {
			for _, m := range f.managers {
				name := fmt.Sprintf("s%d", i)
				id := bound(t, m, name)
				if was, ok := ids[name]; ok && was != id {
					t.Errorf("%s is %s here and %s there", name, was, id)
				}
				ids[name] = id
			}
		}
	})
}

func unjoin(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	return nil
}

// A warm exec asks the store one step, which is one round trip to Redis.
func TestWarmExecIsOneStep(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		var steps []string
		w.store = w.open(&bindingtest.Faulty{Engine: w.engine, Before: func(_ context.Context, op string) error {
			steps = append(steps, op)
			return nil
		}})
		m := w.manager()
		mustExec(t, m, "s")
		steps = nil
		mustExec(t, m, "s")
		if !slices.Equal(steps, []string{"State"}) {
			t.Errorf("a warm exec asked for %v", steps)
		}
	})
}

// What a manager adds to a warm exec, beside the backend alone.
func BenchmarkWarmExec(b *testing.B) {
	w := newWorld(b, nameless)
	shared, err := redis.New(redis.Options{Addrs: []string{redistest.Addr(b)}, Namespace: "t" + rand.Text()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = shared.Close() })
	run := func(name string, exec func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := exec(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	memory := w.manager()
	mustExec(b, memory, "s")
	ref := w.only().Ref
	run("direct", func() error {
		_, err := w.account.Exec(b.Context(), backend.ExecRequest{Ref: ref, Argv: pwd.Argv})
		return err
	})
	run("memory", func() error { _, err := memory.Exec(b.Context(), "s", pwd); return err })
	onRedis := w.manager(func(o *session.ManagerOptions) { o.Store = shared })
	mustExec(b, onRedis, "s")
	run("redis", func() error { _, err := onRedis.Exec(b.Context(), "s", pwd); return err })
	run("redis-state-alone", func() error {
		_, err := shared.State(b.Context(), binding.Key{Tenant: "acme", Session: "s"}, binding.Spend)
		return err
	})
}
