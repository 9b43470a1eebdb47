package redis

import (
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/internal/redistest"
)

func TestMain(m *testing.M) {
	Silence()
	goleak.VerifyTestMain(m)
}

// engine makes an engine that is closed with the test.
func engine(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := NewEngine(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// replicas makes two engines that share a namespace of their own and a clock.
func replicas(t testing.TB, o Options) bindingtest.Fixture {
	t.Helper()
	o.Namespace = "t" + rand.Text()
	c := bindingtest.NewClock()
	a, b := engine(t, o), engine(t, o)
	now := func() string { return strconv.FormatInt(c.Now().UnixMilli(), 10) }
	a.now, b.now = now, now
	return bindingtest.Fixture{
		Replicas: []binding.Engine{a, b}, Advance: c.Advance,
		Write: func(k binding.Key, field, value string) {
			t.Helper()
			name := a.keys(k).binding()
			err := a.client.HSet(t.Context(), name, field, value).Err()
			switch {
			case field == "":
				err = a.client.Del(t.Context(), name).Err()
			case value == "":
				err = a.client.HDel(t.Context(), name, field).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestSuite(t *testing.T) {
	addr := redistest.Addr(t)
	bindingtest.Run(t, func(t testing.TB) bindingtest.Fixture { return replicas(t, Options{Addrs: []string{addr}}) })
}

// With the server's own clock everything means the same.
func TestServerClock(t *testing.T) {
	e := engine(t, Options{Addrs: []string{redistest.Addr(t)}, Namespace: "t" + rand.Text()})
	k := binding.Key{Tenant: "acme", Session: "s"}
	before := time.Now().Add(-time.Minute).UnixMicro()
	fence, _, err := e.Lock(t.Context(), k, "a", 150*time.Millisecond)
	if err != nil || int64(fence) < before {
		t.Fatalf("Lock = %d, %v; want a fence of about now", fence, err)
	}
	for {
		again, busy, err := e.Lock(t.Context(), k, "b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if again != 0 {
			if again <= fence {
				t.Fatalf("fence %d after %d", again, fence)
			}
			break
		}
		if busy <= 0 || busy > 150*time.Millisecond {
			t.Fatalf("busy for %v of a lease of 150ms", busy)
		}
		time.Sleep(busy)
	}
	if err := e.AddWork(t.Context(), k, binding.Work{ID: "a", Kind: "b"}, time.Minute, 1); err != nil {
		t.Fatal(err)
	}
	list, err := e.Work(t.Context(), k)
	if err != nil || len(list) != 1 || time.Until(list[0].Expires) > time.Minute+time.Second || time.Until(list[0].Expires) < 50*time.Second {
		t.Fatalf("Work = %v, %v", list, err)
	}
	// A short lease does not shorten the life of a long one beside it.
	if err := e.AddWork(t.Context(), k, binding.Work{ID: "long", Kind: "c"}, 20*time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := e.RenewWork(t.Context(), k, "a", time.Second); err != nil || !ok {
		t.Fatalf("RenewWork = %v, %v", ok, err)
	}
	for _, name := range []string{e.keys(k).work(), e.keys(k).data()} {
		if ttl, err := e.client.PTTL(t.Context(), name).Result(); err != nil || ttl < 19*time.Hour {
			t.Errorf("%s expires in %v, %v", name, ttl, err)
		}
	}
	// Everything but bindings is forgotten by itself.
	if ok, err := e.Create(t.Context(), binding.Binding{Key: k, Provider: "p", Sandbox: "s", Created: time.Now()}, 0); err != nil || !ok {
		t.Fatalf("Create = %v, %v", ok, err)
	}
	names, err := e.client.Keys(t.Context(), e.namespace+":*").Result()
	if err != nil || len(names) != 4 {
		t.Fatalf("keys %q, %v; want a binding, a lock, work and its data", names, err)
	}
	for _, name := range names {
		ttl, err := e.client.PTTL(t.Context(), name).Result()
		if err != nil || (ttl < 0) != (name == e.keys(k).binding()) {
			t.Errorf("%s expires in %v, %v", name, ttl, err)
		}
	}
}

func TestModel(t *testing.T) {
	addr := redistest.Addr(t)
	bindingtest.CheckModel(t, func(t testing.TB) bindingtest.Fixture { return replicas(t, Options{Addrs: []string{addr}}) })
}

func TestLinearizable(t *testing.T) {
	addr := redistest.Addr(t)
	bindingtest.CheckLinearizable(t, func(t testing.TB) bindingtest.Fixture { return replicas(t, Options{Addrs: []string{addr}}) })
}
