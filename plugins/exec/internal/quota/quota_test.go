package quota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is what a listing would show.
type provider struct {
	mu       sync.Mutex
	sessions map[string]quota.Usage
	err      error
	listed   int
	asked    []string
	during   func()
}

func (p *provider) Held(_ context.Context, _ string, known func(string) bool) (map[string]quota.Usage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed++
	out := make(map[string]quota.Usage)
	for s, u := range p.sessions {
		if !known(s) {
			p.asked = append(p.asked, s)
			out[s] = u
		} else {
			out[s] = quota.Usage{}
		}
	}
	if p.during != nil {
		p.during()
	}
	return out, p.err
}

type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1000, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func begin(t *testing.T, q *quota.Quota) *quota.Grant {
	t.Helper()
	g, err := q.Begin(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// upload stores one file of n bytes in session.
func upload(q *quota.Quota, ctx context.Context, session string, n int64) error {
	g, err := q.Begin(ctx, "acme")
	if err != nil {
		return err
	}
	defer g.End()
	u := quota.Usage{Files: 1, Bytes: n}
	if err := g.Add(u); err != nil {
		return err
	}
	g.Store(session, u)
	return nil
}

func exceeded(err error) bool {
	var e *quota.ExceededError
	return errors.As(err, &e)
}

func TestRestartCountsWhatIsListed(t *testing.T) {
	p := &provider{sessions: map[string]quota.Usage{"old": {Files: 2, Bytes: 70}}}
	q := quota.New(quota.Usage{Files: 4, Bytes: 100}, p, new(clock).now)
	if err := upload(q, t.Context(), "new", 31); !exceeded(err) {
		t.Errorf("31 bytes beside 70 of 100 = %v, want exceeded", err)
	}
	if err := upload(q, t.Context(), "new", 30); err != nil {
		t.Errorf("30 bytes beside 70 of 100: %v", err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	p := &provider{sessions: map[string]quota.Usage{"old": {Files: 3}}}
	q := quota.New(quota.Usage{Files: 4, Bytes: 100}, p, new(clock).now)
	g := begin(t, q)
	defer g.End()
	if err := g.Add(quota.Usage{Files: 1}); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(quota.Usage{Files: 1}); !exceeded(err) {
		t.Errorf("a fifth file of 4 = %v", err)
	}
}

// Nothing is found out before it is known what a tenant holds.
func TestUnknownHoldingsRefuse(t *testing.T) {
	p := &provider{err: errors.New("provider is down")}
	c := new(clock)
	q := quota.New(quota.Usage{Bytes: 100}, p, c.now)
	if _, err := q.Begin(t.Context(), "acme"); err == nil || !errors.Is(err, p.err) {
		t.Fatalf("Begin = %v, want the provider's error", err)
	}
	p.err = nil
	if err := upload(q, t.Context(), "s", 90); err != nil {
		t.Fatal(err)
	}
	// Later an old count is good enough, and still bounds.
	p.err = errors.New("down again")
	c.advance(time.Hour)
	if err := upload(q, t.Context(), "t", 5); err != nil {
		t.Errorf("upload on an old count: %v", err)
	}
	if err := upload(q, t.Context(), "u", 50); !exceeded(err) {
		t.Errorf("upload beyond an old count = %v", err)
	}
}

// What ended frees its share as soon as somebody needs it, and only then is the
// provider asked again.
func TestEndedSessionsFreeTheirShare(t *testing.T) {
	p := &provider{}
	c := new(clock)
	q := quota.New(quota.Usage{Bytes: 100}, p, c.now)
	for i := range 3 {
		if err := upload(q, t.Context(), fmt.Sprint(i), 30); err != nil {
			t.Fatal(err)
		}
		p.sessions = map[string]quota.Usage{"0": {}, "1": {}, "2": {}}
	}
	if p.listed != 1 {
		t.Errorf("listed %d times for three uploads that fit, want once", p.listed)
	}
	delete(p.sessions, "0")
	if err := upload(q, t.Context(), "3", 40); err != nil {
		t.Errorf("upload after a session ended: %v", err)
	}
	if p.listed != 2 || len(p.asked) != 0 {
		t.Errorf("listed %d times, asked about %v; want twice and nothing known", p.listed, p.asked)
	}
	p.sessions["3"] = quota.Usage{}
	c.advance(2 * time.Minute)
	p.sessions["other replica"] = quota.Usage{Bytes: 1}
	if err := upload(q, t.Context(), "4", 1); !exceeded(err) {
		t.Errorf("upload beside another replica's = %v, want exceeded", err)
	}
}

// A listing that began before an upload was stored does not forget it.
func TestListingRacesAnUpload(t *testing.T) {
	p := &provider{}
	c := new(clock)
	q := quota.New(quota.Usage{Bytes: 100}, p, c.now)
	early := begin(t, q)
	if err := early.Add(quota.Usage{Bytes: 90}); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * time.Minute)
	p.during = func() {
		early.Store("just made", quota.Usage{Bytes: 90})
		early.End()
	}
	late := begin(t, q)
	p.during = nil
	if err := late.Add(quota.Usage{Bytes: 20}); !exceeded(err) {
		t.Errorf("Add = %v, want exceeded: the upload that was stored during the listing is forgotten", err)
	}
	late.End()
}

func TestRemoveAndEnd(t *testing.T) {
	p := &provider{sessions: map[string]quota.Usage{"s": {Files: 1, Bytes: 80}}}
	q := quota.New(quota.Usage{Bytes: 100}, p, new(clock).now)
	g := begin(t, q)
	if err := g.Add(quota.Usage{Bytes: 20}); err != nil {
		t.Fatal(err)
	}
	g.End()
	g.End() // gives nothing back twice
	if err := upload(q, t.Context(), "a", 21); !exceeded(err) {
		t.Errorf("21 of 20 left = %v", err)
	}
	q.Remove("acme", "s", quota.Usage{Files: 1, Bytes: 80})
	q.Remove("acme", "s", quota.Usage{Files: 1, Bytes: 80})
	q.Remove("acme", "never", quota.Usage{Bytes: 80})
	q.Remove("nobody", "s", quota.Usage{Bytes: 80})
	if err := upload(q, t.Context(), "a", 100); err != nil {
		t.Errorf("after a removal: %v", err)
	}
	p.sessions["a"] = quota.Usage{}
	if err := upload(q, t.Context(), "a", 1); !exceeded(err) {
		t.Errorf("removing twice gave back twice: %v", err)
	}
}

// A batch that stores file by file is not counted twice on the way.
func TestStoreInSteps(t *testing.T) {
	q := quota.New(quota.Usage{Files: 3, Bytes: 30}, &provider{}, new(clock).now)
	g := begin(t, q)
	defer g.End()
	for i := range 3 {
		u := quota.Usage{Files: 1, Bytes: 10}
		if err := g.Add(u); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		g.Store("s", u)
	}
	if err := g.Add(quota.Usage{Bytes: 1}); !exceeded(err) {
		t.Errorf("beyond the limit = %v", err)
	}
}

// 64 uploads at once of 10 bytes each, in steps, into a quota of 200: at most 20
// get through, whatever the order.
func TestUploadsAtOnceCannotPassTheLimit(t *testing.T) {
	p := &provider{sessions: make(map[string]quota.Usage)}
	for i := range 64 {
		p.sessions[fmt.Sprint(i)] = quota.Usage{}
	}
	q := quota.New(quota.Usage{Bytes: 200}, p, new(clock).now)
	var stored atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			g, err := q.Begin(t.Context(), "acme")
			if err != nil {
				t.Error(err)
				return
			}
			defer g.End()
			for range 10 {
				if err := g.Add(quota.Usage{Bytes: 1}); err != nil {
					if !exceeded(err) {
						t.Error(err)
					}
					return
				}
			}
			g.Store(fmt.Sprint(i), quota.Usage{Bytes: 10})
			stored.Add(10)
		})
	}
	wg.Wait()
	if n := stored.Load(); n > 200 || n == 0 {
		t.Errorf("%d bytes stored, want at most 200 and some", n)
	}
}
