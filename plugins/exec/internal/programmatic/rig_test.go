package programmatic

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// rig is a registry whose programs are functions. Its clock is that of synctest.
type rig struct {
	*Registry[string]
	t     *testing.T
	slots atomic.Int64 // that are held
}

type slot struct {
	r    *rig
	left atomic.Bool
}

func (s *slot) Leave() {
	if !s.left.Swap(true) {
		s.r.slots.Add(-1)
	}
}

func (r *rig) slot() Slot {
	r.slots.Add(1)
	return &slot{r: r}
}

var acme = Owner{Tenant: "acme", User: "alice"}

// test runs f with a registry in a bubble with a clock of its own.
func test(t *testing.T, f func(t *testing.T, r *rig), adjust ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tokens := 0
		o := Options{
			Programs: 4, TenantPrograms: 2, Rounds: 30, Calls: 50, TTL: 10 * time.Minute,
			Gather: 20 * time.Millisecond, GatherMost: 250 * time.Millisecond, Keep: time.Minute, Remember: time.Minute,
			Token: func() (string, error) { tokens++; return fmt.Sprintf("t%d", tokens), nil },
		}
		for _, a := range adjust {
			a(&o)
		}
		r := &rig{Registry: New[string](o), t: t}
		defer func() {
			r.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if err := r.Wait(ctx); err != nil {
				t.Errorf("programs are left: %v", err)
			}
			synctest.Wait()
			if n := r.slots.Load(); n != 0 {
				t.Errorf("%d slots are held", n)
			}
			if n := len(r.tokens) + len(r.requests) + len(r.tenants) + len(r.kept) + len(r.canceled.tenants); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		}()
		f(t, r)
	})
}

// begin runs body as a program that may call a and b.
func (r *rig) begin(owner Owner, id string, body func(ctx context.Context, p *Program[string]) string) *Program[string] {
	r.t.Helper()
	p, err := r.Begin(owner, id, []string{"a", "b"}, r.slot())
	if err != nil {
		r.t.Fatal(err)
	}
	p.Run(r.t.Context(), func(ctx context.Context) string { return body(ctx, p) })
	return p
}

// ask calls a tool and returns what it says.
func ask(ctx context.Context, p *Program[string], tool string) string {
	reply, err := p.Call(ctx, backend.ControlCall{ID: "x", Name: tool, Input: []byte(`{}`)})
	switch {
	case err != nil:
		return "gone"
	case reply.Error != "":
		return "error: " + reply.Error
	}
	return string(reply.Result)
}

func (r *rig) next(p *Program[string]) Event[string] {
	r.t.Helper()
	e, err := p.Next(r.t.Context(), nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// round waits for a round.
func (r *rig) round(p *Program[string]) *Round {
	r.t.Helper()
	e := r.next(p)
	if e.Round == nil || len(e.Round.Calls) == 0 {
		r.t.Fatalf("%+v, want a round", e)
	}
	return e.Round
}

func (r *rig) over(p *Program[string], want string) {
	r.t.Helper()
	if e := r.next(p); !e.Over || e.Outcome != want {
		r.t.Errorf("%+v, want the end %q", e, want)
	}
}

// answer continues and resumes.
func (r *rig) answer(round *Round, results ...Result) *Continuation[string] {
	r.t.Helper()
	c, err := r.Continue(acme, "", round.Token, results)
	if err != nil {
		r.t.Fatal(err)
	}
	c.Resume(r.slot())
	return c
}

func value(c Call, v string) Result { return Result{CallID: c.ID, Value: []byte(v)} }
