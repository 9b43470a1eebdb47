package programmatic

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundsGather(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		began := time.Now()
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			out := make(chan string, 20)
			for range 10 {
				go func() { out <- ask(ctx, p, "a") }()
				time.Sleep(19 * time.Millisecond)
			}
			var all []string
			for range 10 {
				all = append(all, <-out)
			}
			return strings.Join(all, "")
		})
		round := r.round(p)
		if d := time.Since(began); len(round.Calls) != 10 || d != 191*time.Millisecond {
			t.Fatalf("%d calls after %v", len(round.Calls), d)
		}
		if n := r.slots.Load(); n != 0 {
			t.Errorf("%d slots are held while it is suspended", n)
		}
		if all, waiting := r.Live(); all != 1 || waiting != 1 {
			t.Errorf("%d live, %d wait", all, waiting)
		}
		var results []Result
		for _, c := range round.Calls {
			results = append(results, value(c, "1"))
		}
		r.answer(round, results...)
		r.over(p, "1111111111")
	})
}

func TestRoundsEndWhileCallsCome(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		began := time.Now()
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			for range 40 {
				go ask(ctx, p, "a")
				time.Sleep(10 * time.Millisecond)
			}
			<-ctx.Done()
			return "stopped"
		})
		first := r.round(p)
		if d := time.Since(began); d != 250*time.Millisecond || len(first.Calls) < 25 {
			t.Errorf("%d calls after %v", len(first.Calls), d)
		}
		time.Sleep(time.Second) // the rest comes while it is suspended
		r.answer(first, value(first.Calls[0], "1"))
		if second := r.round(p); len(second.Calls) != 39 {
			t.Errorf("%d calls, want those of before without an answer and the later ones", len(second.Calls))
		}
		p.Stop()
	})
}

func TestEachTimerRunsInItsState(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			p.Budget(time.Second)
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				ask(ctx, p, "a")
			}
			<-ctx.Done()
			return context.Cause(ctx).Error()
		})
		for range 5 {
			round := r.round(p)
			time.Sleep(9 * time.Minute)
			r.answer(round, value(round.Calls[0], "1"))
		}
		r.over(p, ErrOverrun.Error())
		if p.Stopped() != ErrOverrun {
			t.Errorf("stopped by %v", p.Stopped())
		}

		p = r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			p.Budget(time.Second)
			return ask(ctx, p, "a")
		})
		round := r.round(p)
		time.Sleep(10*time.Minute - time.Millisecond)
		if _, err := r.Read(acme, round.Token); err != nil {
			t.Errorf("right before the end: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if _, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], "1")}); !errors.Is(err, ErrNotFound) {
			t.Errorf("after the ttl: %v", err)
		}
		if all, _ := r.Live(); all != 0 {
			t.Errorf("%d live", all)
		}
	})
}

func TestContinue(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			x := make(chan string)
			go func() { x <- ask(ctx, p, "b") }()
			time.Sleep(time.Millisecond)
			return ask(ctx, p, "a") + <-x + ask(ctx, p, "a")
		})
		round := r.round(p)
		b, a := round.Calls[0], round.Calls[1]
		if a.Name != "a" || b.Name != "b" || a.ID == b.ID {
			t.Fatalf("%+v", round)
		}
		wrong := func(name string, owner Owner, token string, want error, results ...Result) {
			t.Helper()
			_, err := r.Continue(owner, "", token, results)
			if re, ok := errors.AsType[*ResultError](err); ok && want == nil {
				if re.Rule == "" {
					t.Errorf("%s: no rule", name)
				}
			} else if want == nil || !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		wrong("no token", acme, "t9", ErrNotFound, value(a, "1"))
		wrong("another user", Owner{Tenant: "acme", User: "bob"}, round.Token, ErrNotFound, value(a, "1"))
		wrong("another tenant", Owner{Tenant: "evil", User: "alice"}, round.Token, ErrNotFound, value(a, "1"))
		wrong("nothing", acme, round.Token, nil)
		wrong("unknown", acme, round.Token, nil, Result{CallID: "call_003"})
		wrong("twice", acme, round.Token, nil, value(a, "1"), value(a, "1"))

		// Only one of two, and another continuation meanwhile.
		c, err := r.Continue(acme, "", round.Token, []Result{value(a, "1")})
		if err != nil {
			t.Fatal(err)
		}
		wrong("in flight", acme, round.Token, ErrInFlight, value(a, "1"))
		c.Abandon()
		c, err = r.Continue(acme, "", round.Token, []Result{value(a, "1")})
		if err != nil {
			t.Fatal(err)
		}
		c.Resume(r.slot())
		wrong("in flight", acme, round.Token, ErrInFlight, value(a, "1"))
		wrong("other results", acme, round.Token, ErrAnswered, value(a, "2"))
		rest := r.round(p)
		if len(rest.Calls) != 1 || rest.Calls[0].ID != b.ID || rest.Token == round.Token {
			t.Fatalf("%+v", rest)
		}
		c.Answered([]byte("reply"))
		again, err := r.Continue(acme, "", round.Token, []Result{value(a, "1")})
		if err != nil || string(again.Replay) != "reply" {
			t.Errorf("%+v, %v", again, err)
		}
		wrong("answered differently before", acme, rest.Token, ErrAnswered, value(a, "2"), value(b, "2"))
		r.answer(rest, value(a, "1"), value(b, "2"))
		last := r.round(p)
		wrong("too old to be given again", acme, round.Token, ErrAnswered, value(a, "1"))
		c = r.answer(last, value(last.Calls[0], "3"))
		r.over(p, "123")
		c.Answered([]byte("end"))
		again, err = r.Continue(acme, "", last.Token, []Result{value(last.Calls[0], "3")})
		if err != nil || string(again.Replay) != "end" {
			t.Errorf("%+v, %v", again, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wrong("long after", acme, last.Token, ErrNotFound, value(last.Calls[0], "3"))
	})
}

func TestBounds(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		wait := func(ctx context.Context, p *Program[string]) string { ask(ctx, p, "a"); return "" }
		evil := Owner{Tenant: "evil"}
		for _, o := range []Owner{acme, acme, evil, evil} {
			r.round(r.begin(o, "", wait))
		}
		for _, o := range []Owner{acme, {Tenant: "third"}} {
			if _, err := r.Begin(o, "", nil, r.slot()); err == nil || !strings.Contains(err.Error(), "are alive") {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			var last string
			for range 4 {
				last = ask(ctx, p, "a")
			}
			return last
		})
		for range 2 {
			round := r.round(p)
			r.answer(round, value(round.Calls[0], "1"))
		}
		r.over(p, "error: a program may ask for tools at most 2 times")
	}, func(o *Options) { o.Rounds = 2 })
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			for range 3 {
				ask(ctx, p, "a")
			}
			return ask(ctx, p, "a")
		})
		for range 3 {
			round := r.round(p)
			r.answer(round, value(round.Calls[0], "1"))
		}
		r.over(p, "error: a program may make at most 3 calls")
	}, func(o *Options) { o.Calls = 3 })
}

func TestCallsThatAreWrong(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			for name, in := range map[string]string{"a": `[1]`, "b": `{`, "c": `{}`} {
				reply, err := p.Call(ctx, backend.ControlCall{ID: "1", Name: name, Input: []byte(in)})
				if err != nil || reply.Error == "" {
					t.Errorf("%s %s: %+v, %v", name, in, reply, err)
				}
			}
			return "end"
		})
		r.over(p, "end")
	})
}

// Calls come in any order, and are issued in that in which the program made them, behind
// those that nobody answered.
func TestCallsAreIssuedInTheirOrder(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			var all sync.WaitGroup
			for round, numbers := range [][]string{{"11", "2", "10", "1"}, {"13", "9"}} {
				time.Sleep(time.Duration(round) * time.Second)
				for _, n := range numbers {
					all.Go(func() {
						_, _ = p.Call(ctx, backend.ControlCall{ID: n, Name: "a", Input: []byte(`{"n":` + n + `}`)})
					})
					time.Sleep(time.Millisecond)
				}
			}
			all.Wait()
			return "end"
		})
		issued := func(round *Round) (s string) {
			for _, c := range round.Calls {
				s += c.ID + string(c.Input) + " "
			}
			return s
		}
		first := r.round(p)
		if got := issued(first); got != `call_001{"n":1} call_002{"n":2} call_003{"n":10} call_004{"n":11} ` {
			t.Errorf("%s", got)
		}
		time.Sleep(2 * time.Second)
		r.answer(first, value(first.Calls[2], "0"))
		second := r.round(p)
		if got := issued(second); got != `call_001{"n":1} call_002{"n":2} call_004{"n":11} call_005{"n":9} call_006{"n":13} ` {
			t.Errorf("%s", got)
		}
		var rest []Result
		for _, c := range second.Calls {
			rest = append(rest, value(c, "0"))
		}
		r.answer(second, rest...)
		r.over(p, "end")
	})
}

// A call that comes before earlier ones keeps its round open for them, also where they
// take their time, but not for ever.
func TestRoundsAwaitEarlierCalls(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			call := func(n string) {
				_, _ = p.Call(ctx, backend.ControlCall{ID: n, Name: "a", Input: []byte(`{}`)})
			}
			var all sync.WaitGroup
			all.Go(func() { call("3") })
			time.Sleep(100 * time.Millisecond)
			all.Go(func() { call("1") })
			time.Sleep(100 * time.Millisecond)
			all.Go(func() { call("2") })
			all.Wait()
			all.Go(func() { call("6") }) // the fifth was withdrawn on its way
			time.Sleep(10 * time.Millisecond)
			call("4")
			all.Wait()
			call("7")
			return "end"
		})
		for i, want := range []struct {
			calls int
			after time.Duration
		}{{3, 220 * time.Millisecond}, {2, 250 * time.Millisecond}, {1, 20 * time.Millisecond}} {
			began := time.Now()
			round := r.round(p)
			if d := time.Since(began); len(round.Calls) != want.calls || d > want.after {
				t.Errorf("round %d has %d calls after %v, want %+v", i, len(round.Calls), d, want)
			}
			var all []Result
			for _, c := range round.Calls {
				all = append(all, value(c, "0"))
			}
			r.answer(round, all...)
		}
		r.over(p, "end")
	})
}

// Calls that are withdrawn before their round closes are nobody's business, and answers
// to later ones are nobody's any more.
func TestCallsThatAreWithdrawn(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			for _, d := range []time.Duration{time.Millisecond, time.Second} {
				ctx, cancel := context.WithTimeout(ctx, d)
				ask(ctx, p, "a")
				cancel()
			}
			return ask(ctx, p, "b")
		})
		first := r.round(p)
		if len(first.Calls) != 1 || first.Calls[0].ID != "call_001" {
			t.Fatalf("%+v", first)
		}
		time.Sleep(2 * time.Second)
		r.answer(first, value(first.Calls[0], "1"))
		second := r.round(p)
		if len(second.Calls) != 1 || second.Calls[0].Name != "b" {
			t.Fatalf("%+v", second)
		}
		r.answer(second, value(second.Calls[0], "2"))
		r.over(p, "2")
	})
}
