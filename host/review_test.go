package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
)

func outcome() policy.Outcome {
	return policy.Outcome{
		Request: policy.Request{
			Org: "o", Via: "bearer", Language: "py", Config: "c", Network: "none", CodeBytes: 4, Code: "code",
			Args: []string{"a"}, Files: []policy.File{{Name: "f", Size: 1}}, Limits: policy.Limits{WallMS: 1000},
		},
		Stop: "exit", Stdout: "out", StdoutBytes: 3, Stderr: "err", StderrBytes: 3, Changed: []policy.File{{Name: "g", Size: 2}},
	}
}

// remarking answers result only, with text.
func remarking(t *testing.T, text string) scripted {
	return func(_ context.Context, op uint32, in []byte) ([]byte, error) {
		if op != wasm.OpResult {
			t.Errorf("asked for operation %d", op)
		}
		if _, err := policy.DecodeOutcome(in); err != nil {
			t.Error(err)
		}
		return []byte(text), nil
	}
}

func TestReviewWarnsAndChangesNothing(t *testing.T) {
	slow := `{"warnings":[{"code":"slow","reason":"it was slow"}]}`
	broken := scripted(func(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("trap") })
	result := []string{"result"}
	for _, c := range []struct {
		name  string
		p     boundPolicy
		warns int
		fails bool
	}{
		{"a remark", boundPolicy{module: remarking(t, slow), hooks: result}, 1, false},
		{"warn", boundPolicy{module: remarking(t, slow), hooks: result, mode: PolicyWarn}, 1, false},
		{"observe is silent", boundPolicy{module: remarking(t, slow), hooks: result, mode: PolicyObserve}, 0, false},
		{"nothing to say", boundPolicy{module: remarking(t, ""), hooks: result}, 0, false},
		{"a verdict is no remark", boundPolicy{module: remarking(t, `{"decision":"deny","reason":"no"}`), hooks: result}, 0, true},
		{"output cannot be rewritten", boundPolicy{module: remarking(t, `{"stdout":"other"}`), hooks: result}, 0, true},
		{"a failure is passed over", boundPolicy{module: broken, hooks: result}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.name = "p"
			h := serve(&moduleSet{chain: newChain(policies{c.p})})
			h.decisions = &decisions{}
			if !h.Reviews() {
				t.Fatal("nobody wants to know")
			}
			// A policy of this hook alone is not asked whether a run may begin.
			if _, err := h.Admit(t.Context(), policy.Request{Org: "o"}); err != nil {
				t.Error(err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel() // nobody waits; policies look all the same
			o := outcome()
			if w := h.Review(gone, o); len(w) != c.warns || c.warns == 1 && (w[0] != PolicyWarning{"p", "slow", "it was slow"}) {
				t.Errorf("warnings %+v", w)
			}
			if o.Stdout != "out" || o.Request.Code != "code" {
				t.Errorf("the outcome was changed: %+v", o)
			}
			ds, err := h.Decisions(10)
			if err != nil || len(ds) != 1 || ds[0].Hook != "result" || ds[0].Outcome == nil || ds[0].Outcome.Stdout != "out" || ds[0].Request.Code != "code" {
				t.Fatalf("decisions %+v %v", ds, err)
			}
			if r := ds[0].Rulings[0]; (r.Error != "") != c.fails || r.Verdict != (policy.Verdict{}) {
				t.Errorf("ruling %+v", r)
			}
		})
	}
}

func TestReviewShowsOnlyWhatAPolicyNeeds(t *testing.T) {
	for _, needs := range [][]string{nil, {"code"}, {"output"}, {"files", "args"}} {
		look := scripted(func(_ context.Context, _ uint32, in []byte) ([]byte, error) {
			o, err := policy.DecodeOutcome(in)
			if err != nil {
				t.Error(err)
			}
			sees := func(what string) bool { return slices.Contains(needs, what) }
			if (o.Request.Code != "") != sees("code") || (o.Stdout+o.Stderr != "") != sees("output") ||
				(o.Changed != nil) != sees("files") || (o.Request.Files != nil) != sees("files") || (o.Request.Args != nil) != sees("args") || o.StdoutBytes != 3 {
				t.Errorf("needs %v: shown %+v", needs, o)
			}
			return nil, nil
		})
		h := serve(&moduleSet{chain: newChain(policies{{name: "a", needs: needs, hooks: []string{"result"}, module: look}})})
		h.Review(t.Context(), outcome())
	}
}

// A policy that is asked before runs only costs the end of a run nothing.
func TestReviewOfNobody(t *testing.T) {
	h := judges(scripted(func(context.Context, uint32, []byte) ([]byte, error) {
		t.Error("asked")
		return nil, nil
	}))
	h.decisions = &decisions{}
	if h.Reviews() || h.Review(t.Context(), outcome()) != nil {
		t.Error("reviewed")
	}
	if ds, _ := h.Decisions(1); len(ds) != 0 {
		t.Errorf("%+v", ds)
	}
}

// A policy all of whose instances are busy holds a reply up for its own time limit.
func TestReviewIsBounded(t *testing.T) {
	stuck := scripted(func(ctx context.Context, _ uint32, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	h := serve(&moduleSet{chain: newChain(policies{{name: "a", hooks: []string{"result"}, patience: time.Millisecond, module: stuck}})})
	h.decisions = &decisions{}
	h.Review(t.Context(), outcome())
	if ds, _ := h.Decisions(1); len(ds) != 1 || !strings.Contains(ds[0].Rulings[0].Error, "deadline") {
		t.Errorf("%+v", ds)
	}
}

func TestReplayOfOutcomes(t *testing.T) {
	warn := func(text string) boundPolicy {
		return boundPolicy{name: "p", hooks: []string{"result"}, needs: []string{"output"}, module: scripted(func(_ context.Context, _ uint32, in []byte) ([]byte, error) {
			o, err := policy.DecodeOutcome(in)
			if err != nil || o.Stdout != "out" || o.Request.Limits.WallMS != 1000 {
				return nil, errors.New("it was shown something else")
			}
			if text == "trap" {
				return nil, errors.New("trap")
			}
			return []byte(text), nil
		})}
	}
	h := serve(&moduleSet{chain: newChain(policies{warn(`{"warnings":[{"reason":"one"}]}`)})})
	h.decisions = &decisions{}
	h.Review(t.Context(), outcome())
	for text, want := range map[string]Replay{
		`{"warnings":[{"reason":"one"}]}`: {Requests: 1, Same: 1},
		`{"warnings":[{"reason":"two"}]}`: {Requests: 1},
		`{}`:                              {Requests: 1},
		"trap":                            {Requests: 1, Failed: 1},
	} {
		r, err := h.replay(t.Context(), &moduleSet{chain: newChain(policies{warn(text)})}, "p", 10)
		if err != nil || r.Requests != want.Requests || r.Same != want.Same || r.Failed != want.Failed || len(r.Changes) != 1-want.Same {
			t.Errorf("%s: %+v %v", text, r, err)
		}
	}
}

// What is asked for every run costs the run nothing.
func TestReviewsAllocatesNothing(t *testing.T) {
	h := serve(&moduleSet{chain: newChain(policies{{name: "a", hooks: []string{"admit", "result"}}})})
	if n := testing.AllocsPerRun(100, func() {
		if !h.Reviews() {
			t.Error("nobody reviews")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
