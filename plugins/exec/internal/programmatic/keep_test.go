package programmatic

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestWithdrawnCallsKeepNothing: what a program asked for and gave up, answered or not, is
// not kept for the rest of its life.
func TestWithdrawnCallsKeepNothing(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		input := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 1<<20)...), `"}`...)
		withdraw, withdrawn := make(chan struct{}), make(chan struct{})
		p := r.begin(acme, "", func(ctx context.Context, p *Program[string]) string {
			for i := range 10 { // before their round closes
				gone, cancel := context.WithCancel(ctx)
				cancel()
				_, _ = p.Call(gone, backend.ControlCall{ID: fmt.Sprint(i + 1), Name: "a", Input: input})
			}
			late, cancel := context.WithCancel(ctx)
			go func() { <-withdraw; cancel() }()
			_, _ = p.Call(late, backend.ControlCall{ID: "11", Name: "a", Input: input})
			close(withdrawn)
			return ask(ctx, p, "b")
		})
		round := r.round(p)
		cont, err := r.Continue(acme, "", round.Token, []Result{value(round.Calls[0], string(input))})
		if err != nil {
			t.Fatal(err)
		}
		close(withdraw)
		<-withdrawn
		cont.Resume(r.slot())
		next := r.round(p)
		r.mu.Lock()
		for i, c := range p.calls[:11] {
			if c.Input != nil || len(c.answer) > 0 {
				t.Errorf("call %d: %d bytes of input, %d answers", i, len(c.Input), len(c.answer))
			}
		}
		r.mu.Unlock()
		r.answer(next, value(next.Calls[0], `"1"`))
		r.over(p, `"1"`)
	})
}
