package bindingtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/caisson-run/caisson/host/session/binding"
)

// CheckModel compares an engine with the model: steps and time in any order on two
// replicas give the model's answers.
func CheckModel(t *testing.T, open Open) {
	f := open(t)
	sessions := 0
	now := time.Now().UnixMilli() // the fixture's clock counts in the same steps, from elsewhere
	rapid.Check(t, func(rt *rapid.T) {
		sessions++
		k := binding.Key{Tenant: name("model", sessions), Session: "s"}
		m := model{now: now}
		fences := [holders + 1]binding.Fence{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.IntRange(0, 4).Draw(rt, "wait") == 0 {
				d := rapid.SampledFrom([]time.Duration{1, 999, 1000, 1001, 60_000}).Draw(rt, "ms") * time.Millisecond
				f.Advance(d)
				now += d.Milliseconds()
				m.now = now
			}
			o := drawOp(rt, rapid.IntRange(1, holders).Draw(rt, "holder"), time.Second, 2*time.Second, time.Minute)
			if o.fenced {
				o.fence = fences[o.holder]
			}
			e := f.Replicas[rapid.IntRange(0, len(f.Replicas)-1).Draw(rt, "replica")]
			got, err := o.run(t.Context(), e, k)
			if err != nil {
				rt.Fatalf("%+v: %v", o, err)
			}
			if o.step == "Lock" && got.fence != 0 {
				fences[o.holder] = got.fence
			}
			m.relate(&got)
			ok, next := m.step(k, o, got)
			if !ok {
				rt.Fatalf("%+v on %+v\ngave %+v", o, m, got)
			}
			m = next
		}
	})
}

// relate replaces the time of a stale mark, which the fixture's clock gave, by the
// model's: that it is set and stays is what counts.
func (m model) relate(r *result) {
	if !r.state.Binding.Stale.IsZero() && m.stale != 0 {
		r.state.Binding.Stale = time.UnixMilli(m.stale).UTC()
	}
}

// CheckLinearizable runs steps on two replicas at once and searches for an order in
// which the model gives the same answers: every step happened at one moment.
func CheckLinearizable(t *testing.T, open Open) {
	f := open(t)
	sessions, unknown := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		sessions++
		k := binding.Key{Tenant: name("history", sessions), Session: "s"}
		threads := rapid.IntRange(2, holders).Draw(rt, "threads")
		plan := make([][]op, threads)
		for i := range plan {
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				// A holder is one thread: it knows its own last fence.
				plan[i] = append(plan[i], drawOp(rt, i+1, forever))
			}
		}
		history, err := execute(t.Context(), f, k, plan)
		if err != nil {
			rt.Fatal(err)
		}
		m := porcupine.Model{
			Init: func() any { return model{now: 1} },
			Step: func(state, input, output any) (bool, any) {
				m, r := state.(model), output.(result)
				m.relate(&r)
				return m.step(k, input.(op), r)
			},
			DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
		}
		switch porcupine.CheckOperationsTimeout(m, history, 10*time.Second) {
		case porcupine.Illegal:
			for _, h := range history {
				rt.Logf("%d: %d..%d %s", h.ClientId, h.Call, h.Return, m.DescribeOperation(h.Input, h.Output))
			}
			rt.Fatal("no order explains this history")
		case porcupine.Unknown:
			unknown++
		}
	})
	if unknown*10 > sessions {
		t.Errorf("%d of %d histories were too long to decide", unknown, sessions)
	}
}

// execute runs each thread's steps at the same time and writes down what happened.
func execute(ctx context.Context, f Fixture, k binding.Key, plan [][]op) ([]porcupine.Operation, error) {
	var mu sync.Mutex
	var history []porcupine.Operation
	var failed error
	var wg sync.WaitGroup
	start := time.Now()
	for i, steps := range plan {
		wg.Go(func() {
			var fence binding.Fence
			for _, o := range steps {
				if o.fenced {
					o.fence = fence
				}
				call := time.Since(start)
				r, err := o.run(ctx, f.Replicas[i%len(f.Replicas)], k)
				done := time.Since(start)
				if o.step == "Lock" && r.fence != 0 {
					fence = r.fence
				}
				mu.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("%+v: %w", o, err)
				}
				history = append(history, porcupine.Operation{ClientId: i, Input: o, Output: r, Call: int64(call), Return: int64(done)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history, failed
}

func drawOp(rt *rapid.T, holder int, leases ...time.Duration) op {
	return op{
		step:    rapid.SampledFrom(modelSteps).Draw(rt, "step"),
		holder:  holder,
		sandbox: rapid.IntRange(0, 1).Draw(rt, "sandbox"),
		token:   rapid.IntRange(0, 1).Draw(rt, "token"),
		work:    rapid.IntRange(0, works-1).Draw(rt, "work"),
		kind:    rapid.IntRange(0, 1).Draw(rt, "kind"),
		limit:   rapid.IntRange(1, 2).Draw(rt, "limit"),
		lease:   rapid.SampledFrom(leases).Draw(rt, "lease"),
		rebuild: binding.Rebuild(rapid.Bool().Draw(rt, "spend")),
		what:    rapid.SampledFrom([]binding.Lease{binding.LeaseLifecycle, binding.LeaseTurn, binding.LeaseRewind}).Draw(rt, "what"),
		fenced:  rapid.Bool().Draw(rt, "fenced"),
	}
}
