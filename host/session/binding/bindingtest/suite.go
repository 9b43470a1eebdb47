// Package bindingtest is the suite that every binding engine passes, and what tests
// of stores need: an engine with faults, and a model to compare histories with.
package bindingtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// Fixture is an engine under test with nothing in it.
type Fixture struct {
	// Replicas are engines over the same bindings, two or more. Where there can be
	// only one process, they are one engine.
	Replicas []binding.Engine
	// Advance moves the clock that leases are measured by. The clock must not move
	// otherwise.
	Advance func(time.Duration)
	// Write changes the stored record of a session, where it can be reached from
	// outside: for records of other versions, and damaged ones. Nil where it cannot.
	Write func(key binding.Key, field, value string)
}

// Open makes a fixture. It registers what must be closed with t.
type Open func(t testing.TB) Fixture

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, *suite)
	}{
		{"create", testCreate},
		{"create keeps every value", testValues},
		{"delete if match", testDelete},
		{"replace token", testToken},
		{"token and stale mark do not lose each other", testTokenAndStale},
		{"mark stale", testStale},
		{"list", testList},
		{"keys do not collide", testKeys},
		{"arguments", testArguments},
		{"foreign records", testForeign},
		{"closed", testClosed},
		{"canceled", testCanceled},
		{"lock excludes", testLockExcludes},
		{"lock contexts", testLockContexts},
		{"lock waiting", testLockWaiting},
		{"lock of a dead holder", testLockDead},
		{"lost lock", testLockLost},
		{"lock that cannot be renewed", testLockUnproven},
		{"lock whose answer was lost", testLockAnswerLost},
		{"turns", testTurns},
		{"turns end once", testTurnsEndOnce},
		{"turns of the dead", testTurnsDead},
		{"rebuild once per turn", testRebuild},
		{"rewind", testRewind},
		{"lost rewind", testRewindLost},
		{"work", testWork},
		{"work limits", testWorkLimits},
		{"work leases", testWorkLeases},
		{"check", testCheck},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			c.f(t, &suite{Fixture: f, a: store(t, f.Replicas[0], binding.Options{}), b: store(t, f.Replicas[1], binding.Options{})})
		})
	}
}

// suite is a fixture with a store on each of two replicas.
type suite struct {
	Fixture
	a, b *binding.Store
}

var key = binding.Key{Tenant: "acme", Session: "s1"}

func store(t testing.TB, e binding.Engine, o binding.Options) *binding.Store {
	t.Helper()
	s, err := binding.New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bound is a binding as a test makes it.
func bound(k binding.Key, sandbox string) binding.Binding {
	return binding.Binding{Key: k, Provider: "p", Config: "main", Sandbox: sandbox, Created: time.UnixMilli(1_700_000_000_000).UTC()}
}

func (s *suite) create(t *testing.T, b binding.Binding, want bool) {
	t.Helper()
	if ok, err := s.a.Create(t.Context(), b); err != nil || ok != want {
		t.Fatalf("Create = %v, %v; want %v", ok, err, want)
	}
}

func (s *suite) expect(t *testing.T, want binding.Binding) {
	t.Helper()
	got, ok, err := s.b.Get(t.Context(), want.Key)
	if err != nil || !ok || got != want {
		t.Fatalf("Get = %v (token %q, stale %v), %v, %v; want %v (token %q, stale %v)", got, got.Token, got.Stale, ok, err, want, want.Token, want.Stale)
	}
}

func (s *suite) unbound(t *testing.T, k binding.Key) {
	t.Helper()
	if b, ok, err := s.b.Get(t.Context(), k); err != nil || ok {
		t.Fatalf("Get = %v, %v, %v; want none", b, ok, err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s = %v, want %v", what, err, want)
	}
}

func noErr(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func testCreate(t *testing.T, s *suite) {
	s.unbound(t, key)
	s.create(t, bound(key, "one"), true)
	s.create(t, bound(key, "two"), false)
	s.create(t, bound(key, "one"), true) // a repetition whose first answer was lost
	other := bound(key, "one")
	other.Provider = "q"
	s.create(t, other, false)
	s.Advance(1000 * time.Hour)
	s.expect(t, bound(key, "one"))

	// Many at once: one sandbox wins, and everybody is told the truth.
	k := binding.Key{Tenant: "acme", Session: "raced"}
	var wg sync.WaitGroup
	won := make([]bool, 20)
	for i := range won {
		wg.Go(func() {
			ok, err := []*binding.Store{s.a, s.b}[i%2].Create(t.Context(), bound(k, fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
			}
			won[i] = ok
		})
	}
	wg.Wait()
	winners := 0
	for i, ok := range won {
		if ok {
			winners++
			s.expect(t, bound(k, fmt.Sprint(i)))
		}
	}
	if winners != 1 {
		t.Errorf("%d creates won, want one", winners)
	}
}

func testValues(t *testing.T, s *suite) {
	wide := func(n int) string { return strings.Repeat("é", n/2) }
	for i, b := range []binding.Binding{
		{Key: key, Provider: "p", Sandbox: "s", Created: time.UnixMilli(1).UTC()},
		{
			Key: binding.Key{Tenant: wide(binding.MaxTenant), Session: wide(binding.MaxSession)}, Provider: wide(binding.MaxProvider),
			Config: wide(binding.MaxConfig), Sandbox: wide(binding.MaxSandbox), Template: wide(binding.MaxTemplate),
			Token: wide(binding.MaxToken), Created: time.Now().Truncate(time.Millisecond).UTC(), Stale: time.UnixMilli(2_000_000_000_123).UTC(),
		},
		{
			Key: binding.Key{Tenant: `a b"c\d`, Session: "<&>:*?[x]$1"}, Provider: "%s", Config: "_default",
			Sandbox: "-1", Template: "1e9", Token: "eyJ.Zm9v-_=+/ x", Created: time.UnixMilli(1_700_000_000_001).UTC(),
		},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s.create(t, b, true)
			s.expect(t, b)
			got, err := s.b.Bindings(t.Context(), []binding.Key{b.Key})
			if err != nil || got[b.Key] != b {
				t.Errorf("Bindings = %v, %v", got, err)
			}
		})
	}
	// Times are kept in milliseconds, in whatever zone they came.
	k := binding.Key{Tenant: "acme", Session: "zone"}
	b := bound(k, "x")
	b.Created = time.Date(2026, 5, 4, 3, 2, 1, 987_654_321, time.FixedZone("z", 3600))
	s.create(t, b, true)
	b.Created = time.Date(2026, 5, 4, 2, 2, 1, 987_000_000, time.UTC)
	s.expect(t, b)
}

func testDelete(t *testing.T, s *suite) {
	del := func(provider, sandbox string, want bool) {
		t.Helper()
		if ok, err := s.b.DeleteIfMatch(t.Context(), key, provider, sandbox); err != nil || ok != want {
			t.Fatalf("DeleteIfMatch(%q, %q) = %v, %v; want %v", provider, sandbox, ok, err, want)
		}
	}
	del("p", "one", false)
	s.create(t, bound(key, "one"), true)
	del("p", "two", false)
	del("q", "one", false)
	del("", "", false)
	s.expect(t, bound(key, "one"))
	del("p", "one", true)
	s.unbound(t, key)
	del("p", "one", false)
	s.create(t, bound(key, "two"), true)
}

func testToken(t *testing.T, s *suite) {
	replace := func(sandbox, token string, want bool) {
		t.Helper()
		if ok, err := s.b.ReplaceToken(t.Context(), key, "p", sandbox, token); err != nil || ok != want {
			t.Fatalf("ReplaceToken(%q) = %v, %v; want %v", sandbox, ok, err, want)
		}
	}
	replace("one", "t0", false)
	s.unbound(t, key)
	b := bound(key, "one")
	b.Template = "tpl"
	s.create(t, b, true)
	replace("one", "t1", true)
	b.Token = "t1"
	s.expect(t, b)
	replace("one", "", false) // an empty token is nothing to write
	replace("two", "t2", false)
	s.expect(t, b)
}

func testTokenAndStale(t *testing.T, s *suite) {
	for i := range 20 {
		k := binding.Key{Tenant: "acme", Session: fmt.Sprint(i)}
		s.create(t, bound(k, "one"), true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if ok, err := s.a.ReplaceToken(t.Context(), k, "p", "one", "fresh"); err != nil || !ok {
				t.Errorf("ReplaceToken = %v, %v", ok, err)
			}
		})
		wg.Go(func() {
			if n, err := s.b.MarkStale(t.Context(), "acme", "main"); err != nil || n != 1 {
				t.Errorf("MarkStale = %d, %v; want 1", n, err)
			}
		})
		wg.Wait()
		if b, _, err := s.b.Get(t.Context(), k); err != nil || b.Token != "fresh" || b.Stale.IsZero() {
			t.Fatalf("token %q, stale %v, %v; want both", b.Token, b.Stale, err)
		}
	}
}

func testStale(t *testing.T, s *suite) {
	with := func(tenant, session, config string) binding.Binding {
		b := bound(binding.Key{Tenant: tenant, Session: session}, "x")
		b.Config = config
		s.create(t, b, true)
		return b
	}
	one, two := with("acme", "1", "main"), with("acme", "2", "main")
	others := []binding.Binding{
		with("acme", "3", "other"), with("acme", "4", ""), with("acm", "1", "main"), with("acme2", "1", "main"),
		with("a*", "1", "main"), with("acme:", "1", "main"), with(`[a]?\\`, "1", "main"),
	}
	mark := func(tenant, config string, want int) {
		t.Helper()
		if n, err := s.a.MarkStale(t.Context(), tenant, config); err != nil || n != want {
			t.Fatalf("MarkStale(%q, %q) = %d, %v; want %d", tenant, config, n, err, want)
		}
	}
	mark("acme", "main", 2)
	for _, b := range []binding.Binding{one, two} {
		got, _, err := s.b.Get(t.Context(), b.Key)
		if err != nil || got.Stale.IsZero() {
			t.Fatalf("stale %v, %v", got.Stale, err)
		}
		b.Stale = got.Stale
		s.expect(t, b)
	}
	for _, b := range others {
		s.expect(t, b)
	}
	s.Advance(time.Minute)
	mark("acme", "main", 0) // those that are marked do not count, and keep their time
	one.Stale, two.Stale = mustStale(t, s, one.Key), mustStale(t, s, two.Key)
	with("acme", "5", "main")
	mark("acme", "main", 1)
	s.expect(t, one)
	mark("a*", "main", 1)
	mark(`[a]?\\`, "main", 1)
	mark("nobody", "main", 0)
}

func mustStale(t *testing.T, s *suite, k binding.Key) time.Time {
	t.Helper()
	b, ok, err := s.b.Get(t.Context(), k)
	if err != nil || !ok || b.Stale.IsZero() {
		t.Fatalf("%v: %v, %v, %v", k, b, ok, err)
	}
	return b.Stale
}
