package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/internal/redistest"
)

// trips counts round trips: a pipeline is one.
type trips struct{ n atomic.Int64 }

func (c *trips) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// What a step costs in round trips, once the server knows its script.
func TestRoundTrips(t *testing.T) {
	e := engine(t, Options{Addrs: []string{redistest.Addr(t)}, Namespace: "t" + rand.Text()})
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	works(t, s)
	var c trips
	e.client.AddHook(&c)
	all := steps(t.Context(), s, acme)
	all["BeginTurn and State"] = func() error {
		turn, _, err := s.BeginTurn(t.Context(), acme, binding.Spend)
		if err == nil {
			turn.End()
		}
		return err
	}
	var many []binding.Key
	for i := range page + 1 {
		many = append(many, binding.Key{Tenant: "acme", Session: fmt.Sprint(i)})
	}
	all["Bindings of many"] = func() error { _, err := s.Bindings(t.Context(), many); return err }
	for name, want := range map[string]int64{
		"Get": 1, "State": 1, "Create": 1, "DeleteIfMatch": 1, "ReplaceToken": 1, "Bindings": 1, "AddWork": 1, "RenewWork": 1,
		"RemoveWork": 1, "Work": 1, "Check": 1, "Bindings of many": 2,
		"BeginTurn": 2, "LockRewind": 2, "Lock": 2, // with their end
		"BeginTurn and State": 2,
	} {
		c.n.Store(0)
		if err := all[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := c.n.Load(); n != want {
			t.Errorf("%s took %d round trips, want %d", name, n, want)
		}
	}
}

// A warm resolve, beside the cheapest question a server can be asked with the same
// client, and beside the same in memory.
func BenchmarkResolve(b *testing.B) {
	e := engine(b, Options{Addrs: []string{redistest.Addr(b)}, Namespace: "t" + rand.Text()})
	shared, err := binding.New(e, binding.Options{})
	if err != nil {
		b.Fatal(err)
	}
	local, err := memory.New(binding.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]*binding.Store{"redis": shared, "memory": local} {
		create(b, s, record(acme, "x"))
		b.Run("state="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if st, err := s.State(b.Context(), acme, binding.Spend); err != nil || !st.Bound {
					b.Fatal(st, err)
				}
			}
		})
		b.Run("turn="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				turn, st, err := s.BeginTurn(b.Context(), acme, binding.Spend)
				if err != nil || !st.Bound {
					b.Fatal(st, err)
				}
				turn.End()
			}
		})
		b.Run("parallel="+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := s.State(context.Background(), acme, binding.Spend); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		b.Run("lock="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				err := s.WithLifecycleLock(b.Context(), acme, func(context.Context, *binding.Ownership) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("ping", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			if err := e.client.Ping(ctx).Err(); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
}
