package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/internal/redistest"
)

var acme = binding.Key{Tenant: "acme", Session: "s"}

func record(k binding.Key, sandbox string) binding.Binding {
	return binding.Binding{Key: k, Provider: "p", Config: "main", Sandbox: sandbox, Token: "hush-hush", Created: time.UnixMilli(1_700_000_000_000).UTC()}
}

// patience is what steps may take in these tests: long for a busy machine, short for
// a person who waits.
const patience = time.Second

func open(t testing.TB, addr string, change func(*Options)) *binding.Store {
	t.Helper()
	o := Options{Addrs: []string{addr}, Store: binding.Options{OpTimeout: patience}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func create(t testing.TB, s *binding.Store, b binding.Binding) {
	t.Helper()
	if ok, err := s.Create(t.Context(), b); err != nil || !ok {
		t.Fatalf("Create = %v, %v", ok, err)
	}
}

// steps are all steps of a store, by name.
func steps(ctx context.Context, s *binding.Store, k binding.Key) map[string]func() error {
	return map[string]func() error{
		"Get":           func() error { _, _, err := s.Get(ctx, k); return err },
		"State":         func() error { _, err := s.State(ctx, k, binding.Spend); return err },
		"Bindings":      func() error { _, err := s.Bindings(ctx, []binding.Key{k}); return err },
		"Create":        func() error { _, err := s.Create(ctx, record(k, "x")); return err },
		"DeleteIfMatch": func() error { _, err := s.DeleteIfMatch(ctx, k, "p", "y"); return err },
		"ReplaceToken":  func() error { _, err := s.ReplaceToken(ctx, k, "p", "x", "t"); return err },
		"MarkStale":     func() error { _, err := s.MarkStale(ctx, k.Tenant, "main"); return err },
		"All": func() error {
			for _, err := range s.All(ctx, binding.Filter{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Lock": func() error {
			return s.WithLifecycleLock(ctx, k, func(context.Context, *binding.Ownership) error { return nil })
		},
		"BeginTurn": func() error {
			turn, _, err := s.BeginTurn(ctx, k, binding.Keep)
			if err == nil {
				turn.End()
			}
			return err
		},
		"LockRewind": func() error {
			r, err := s.LockRewind(ctx, binding.Key{Tenant: k.Tenant, Session: "rewound"})
			if err == nil {
				r.Unlock()
			}
			return err
		},
		"AddWork":    func() error { return s.AddWork(ctx, k, binding.Work{ID: "a", Kind: "b"}, time.Minute, 1) },
		"RenewWork":  func() error { _, err := s.RenewWork(ctx, k, "a", time.Minute); return err },
		"RemoveWork": func() error { return s.RemoveWork(ctx, k, "a") },
		"Work":       func() error { _, err := s.Work(ctx, k); return err },
		"Check":      func() error { _, err := s.Check(ctx); return err },
	}
}

// unavailable holds what every step owes its caller when the server cannot answer: a
// typed error of that reason, soon, with a hint, and no secret in it.
func unavailable(t *testing.T, s *binding.Store, reason binding.Reason, most time.Duration, only ...string) {
	t.Helper()
	all := steps(t.Context(), s, acme)
	if len(only) == 0 {
		for name := range all {
			only = append(only, name)
		}
	}
	var wg sync.WaitGroup
	for _, name := range only {
		wg.Go(func() {
			start := time.Now()
			err := all[name]()
			took := time.Since(start)
			var e *binding.Error
			if !errors.Is(err, binding.ErrUnavailable) || !errors.As(err, &e) {
				t.Errorf("%s = %v, want ErrUnavailable", name, err)
				return
			}
			if e.Reason != reason || e.RetryAfter <= 0 || e.Op == "" {
				t.Errorf("%s: reason %q, retry after %v, op %q; want reason %q and the others: %v", name, e.Reason, e.RetryAfter, e.Op, reason, err)
			}
			if took > most {
				t.Errorf("%s took %v, more than %v", name, took, most)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, e), "hush") {
				t.Errorf("%s shows a secret: %v", name, err)
			}
		})
	}
	wg.Wait()
}

func works(t *testing.T, s *binding.Store) {
	t.Helper()
	for name, step := range steps(t.Context(), s, acme) {
		if err := step(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServerCrashes(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.Addr, nil)
	create(t, s, record(acme, "x"))
	works(t, s)
	err := s.WithLifecycleLock(t.Context(), acme, func(ctx context.Context, own *binding.Ownership) error {
		server.Kill()
		// A step, and giving back what it may have taken: bounded twice over.
		unavailable(t, s, binding.Down, 20*patience, except("Lock")...)
		server.Start(t)
		// It is back, without our doing, and has forgotten everything.
		if _, bound, err := s.Get(t.Context(), acme); err != nil || bound {
			t.Errorf("Get = %v, %v; want nothing", bound, err)
		}
		if _, err := s.Create(ctx, record(acme, "y")); !errors.Is(err, binding.ErrOwnershipLost) {
			t.Errorf("Create under a forgotten lock = %v", err)
		}
		if err := own.Verify(ctx); !errors.Is(err, binding.ErrOwnershipLost) {
			t.Errorf("Verify = %v", err)
		}
		return own.Err()
	})
	if !errors.Is(err, binding.ErrOwnershipLost) {
		t.Errorf("WithLifecycleLock = %v", err)
	}
	works(t, s)
}

// except lists all steps but some.
func except(names ...string) []string {
	var list []string
	for name := range steps(context.Background(), nil, acme) {
		skip := false
		for _, n := range names {
			skip = skip || n == name
		}
		if !skip {
			list = append(list, name)
		}
	}
	return list
}

func TestServerNeverThere(t *testing.T) {
	redistest.Need(t)
	s := open(t, t.TempDir()+"/none", nil)
	unavailable(t, s, binding.Down, 20*patience)
}

func TestServerHangs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.Addr, func(o *Options) { o.Store.SweepTimeout = patience })
	works(t, s)
	server.Freeze()
	defer server.Thaw()
	unavailable(t, s, binding.Slow, 20*patience)
	server.Thaw()
	works(t, s)
}

// With an append-only file everything survives, the token and the lock too.
func TestServerKeepsItsFile(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, server.Addr, nil)
	create(t, s, record(acme, "x"))
	report, err := s.Check(t.Context())
	if err != nil || !report.Durable || !report.Shared || len(report.Warnings) != 0 {
		t.Errorf("Check = %+v, %v", report, err)
	}
	err = s.WithLifecycleLock(t.Context(), acme, func(ctx context.Context, own *binding.Ownership) error {
		server.Kill()
		server.Start(t)
		if b, _, err := s.Get(ctx, acme); err != nil || b != record(acme, "x") {
			t.Errorf("Get = %v, %v", b, err)
		}
		return own.Verify(ctx)
	})
	if err != nil {
		t.Errorf("the lock did not survive: %v", err)
	}
}

func TestServerFull(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.Addr, nil)
	e := engine(t, Options{Addrs: []string{server.Addr}})
	create(t, s, record(acme, "x"))
	if err := s.AddWork(t.Context(), acme, binding.Work{ID: "full", Kind: "job"}, time.Minute, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.BeginTurn(t.Context(), acme, "full", time.Minute, binding.Keep); err != nil {
		t.Fatal(err)
	}
	err := s.WithLifecycleLock(t.Context(), binding.Key{Tenant: "acme", Session: "held"}, func(ctx context.Context, own *binding.Ownership) error {
		c := server.Client(t)
		if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		unavailable(t, s, binding.Full, 20*patience, "BeginTurn", "AddWork", "Lock", "LockRewind", "ReplaceToken")
		other := binding.Key{Tenant: "acme", Session: "other"}
		if _, err := s.Create(ctx, record(other, "y")); !errors.Is(err, binding.ErrUnavailable) {
			t.Errorf("Create = %v", err)
		}
		// What is there can be read and deleted.
		if b, _, err := s.Get(ctx, acme); err != nil || b.Sandbox != "x" {
			t.Errorf("Get = %v, %v", b, err)
		}
		if ok, err := s.DeleteIfMatch(ctx, acme, "p", "x"); err != nil || !ok {
			t.Errorf("DeleteIfMatch = %v, %v", ok, err)
		}
		// What is held can be kept.
		if err := own.Verify(ctx); err != nil {
			t.Errorf("Verify = %v", err)
		}
		if ok, err := s.RenewWork(ctx, acme, "full", time.Minute); err != nil || !ok {
			t.Errorf("RenewWork = %v, %v", ok, err)
		}
		if ok, err := e.Renew(ctx, acme, binding.LeaseTurn, "full", time.Minute); err != nil || !ok {
			t.Errorf("Renew of a turn = %v, %v", ok, err)
		}
		return c.ConfigSet(ctx, "maxmemory", "64mb").Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	works(t, s)
}

func TestServerIsAReplica(t *testing.T) {
	master := redistest.StartTCP(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	s := open(t, replica.Addr, nil)
	unavailable(t, s, binding.ReadOnly, 20*patience, "Create", "BeginTurn", "Lock", "LockRewind", "AddWork")
	report, err := s.Check(t.Context())
	if err != nil || !strings.Contains(strings.Join(report.Warnings, "\n"), "takes no writes") {
		t.Errorf("Check = %+v, %v", report, err)
	}
}

func TestWrongCredentials(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "the right one")
	for name, change := range map[string]func(*Options){
		"none":     func(*Options) {},
		"password": func(o *Options) { o.Password = "hush" },
		"user":     func(o *Options) { o.Username, o.Password = "hush-user", "hush" },
	} {
		t.Run(name, func(t *testing.T) {
			unavailable(t, open(t, server.Addr, change), binding.Auth, 20*patience)
		})
	}
	works(t, open(t, server.Addr, func(o *Options) { o.Password = "the right one" }))
}

// Scripts that the server forgot are sent again.
func TestScriptsForgotten(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.Addr, nil)
	works(t, s)
	if err := server.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	works(t, s)
}

// Somebody else's keys under our names are damage, and stay.
func TestForeignKeys(t *testing.T) {
	e := engine(t, Options{Addrs: []string{redistest.Addr(t)}, Namespace: "t" + rand.Text()})
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := e.keys(acme)
	names := []string{k.binding(), k.lock(), k.rewind(), k.turns(), k.work()}
	for _, name := range names {
		if err := e.client.Set(t.Context(), name, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, step := range steps(t.Context(), s, acme) {
		if name == "Check" || name == "LockRewind" { // of another key, or of none
			continue
		}
		if err := step(); !errors.Is(err, binding.ErrCorrupt) {
			t.Errorf("%s = %v, want ErrCorrupt", name, err)
		}
	}
	if v, err := e.client.Get(t.Context(), k.binding()).Result(); err != nil || v != "x" {
		t.Errorf("the foreign key is %q, %v", v, err)
	}
	if err := e.client.Del(t.Context(), names...).Err(); err != nil {
		t.Fatal(err)
	}
}
