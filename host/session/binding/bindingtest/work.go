package bindingtest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

func testWork(t *testing.T, s *suite) {
	list := func(want ...binding.Work) {
		t.Helper()
		got, err := s.b.Work(t.Context(), key)
		noErr(t, "Work", err)
		if len(got) != len(want) {
			t.Fatalf("Work = %+v, want %+v", got, want)
		}
		for i, w := range got {
			if w.Expires.IsZero() {
				t.Errorf("%q does not expire", w.ID)
			}
			w.Expires = time.Time{}
			if w != want[i] {
				t.Errorf("Work[%d] = %+v, want %+v", i, w, want[i])
			}
		}
	}
	list()
	b := binding.Work{ID: "b", Kind: "job", Data: "line\nline\x00\xff" + strings.Repeat("x", 1000)}
	a := binding.Work{ID: "a.1_-", Kind: "run"}
	noErr(t, "AddWork", s.a.AddWork(t.Context(), key, b, time.Minute, 1))
	noErr(t, "AddWork", s.a.AddWork(t.Context(), key, a, time.Minute, 1))
	list(a, b)
	b.Data = "changed"
	noErr(t, "AddWork again", s.b.AddWork(t.Context(), key, b, time.Minute, 1))
	list(a, b)
	noErr(t, "RemoveWork", s.b.RemoveWork(t.Context(), key, "a.1_-"))
	noErr(t, "RemoveWork", s.b.RemoveWork(t.Context(), key, "a.1_-"))
	list(b)
	other, err := s.b.Work(t.Context(), binding.Key{Tenant: "acme", Session: "s2"})
	if err != nil || len(other) != 0 {
		t.Errorf("another session has %v, %v", other, err)
	}
}

func testWorkLimits(t *testing.T, s *suite) {
	add := func(id, kind string, limit int) error {
		return s.a.AddWork(t.Context(), key, binding.Work{ID: id, Kind: kind}, time.Minute, limit)
	}
	noErr(t, "first", add("1", "job", 2))
	noErr(t, "second", add("2", "job", 2))
	wantErr(t, "third", add("3", "job", 2), binding.ErrWorkLimit)
	noErr(t, "the second again", add("2", "job", 2))
	noErr(t, "another kind", add("3", "jo", 1))
	wantErr(t, "a change of kind", add("3", "job", 2), binding.ErrWorkLimit)
	noErr(t, "remove", s.a.RemoveWork(t.Context(), key, "1"))
	noErr(t, "third now", add("4", "job", 2))

	// Many at once: never more than the limit.
	k := binding.Key{Tenant: "acme", Session: "many"}
	var added atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := []*binding.Store{s.a, s.b}[i%2].AddWork(t.Context(), k, binding.Work{ID: fmt.Sprint(i), Kind: "job"}, time.Minute, 3)
			if err == nil {
				added.Add(1)
			}
		})
	}
	wg.Wait()
	if list, err := s.a.Work(t.Context(), k); err != nil || len(list) != 3 || added.Load() != 3 {
		t.Errorf("%d were added and %d are live, %v; want 3", added.Load(), len(list), err)
	}

	k.Session = "most"
	for i := range binding.MaxWork {
		noErr(t, "AddWork", s.Replicas[0].AddWork(t.Context(), k, binding.Work{ID: fmt.Sprint(i), Kind: fmt.Sprint(i)}, time.Minute, 1))
	}
	wantErr(t, "one more than MaxWork", s.a.AddWork(t.Context(), k, binding.Work{ID: "x", Kind: "x"}, time.Minute, 1), binding.ErrWorkLimit)
	s.Advance(time.Minute)
	noErr(t, "after the leases", s.a.AddWork(t.Context(), k, binding.Work{ID: "x", Kind: "x"}, time.Minute, 1))
}

// What nobody renews stops protecting.
func testWorkLeases(t *testing.T, s *suite) {
	noErr(t, "AddWork", s.a.AddWork(t.Context(), key, binding.Work{ID: "j", Kind: "job"}, time.Minute, 1))
	renew := func(want bool) {
		t.Helper()
		if ok, err := s.b.RenewWork(t.Context(), key, "j", time.Minute); err != nil || ok != want {
			t.Fatalf("RenewWork = %v, %v; want %v", ok, err, want)
		}
	}
	s.Advance(50 * time.Second)
	renew(true)
	s.Advance(50 * time.Second)
	if st := s.state(t, key, binding.Keep); st.Work != 1 {
		t.Errorf("renewed work is not live: %+v", st)
	}
	s.Advance(10 * time.Second)
	if st := s.state(t, key, binding.Keep); st.Work != 0 || !st.MayRebuild() {
		t.Errorf("expired work still protects: %+v", st)
	}
	renew(false)
	if list, err := s.a.Work(t.Context(), key); err != nil || len(list) != 0 {
		t.Errorf("Work = %v, %v", list, err)
	}
	r, err := s.a.LockRewind(t.Context(), key)
	noErr(t, "LockRewind", err)
	r.Unlock()
	if ok, err := s.b.RenewWork(t.Context(), key, "never", time.Minute); err != nil || ok {
		t.Errorf("RenewWork of nothing = %v, %v", ok, err)
	}
}
