package host

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
)

// Reviews reports whether a policy wants to see the outcomes of runs, so that nobody
// describes one for nothing.
func (h *Host) Reviews() bool {
	ref, err := h.modules.Acquire()
	if err != nil {
		return false
	}
	defer ref.Release()
	return len(ref.Value().chain.reviews) > 0
}

// Review shows the policies that ask for it what became of a run that was admitted,
// and returns what the caller is told besides the reply. The run is over and paid
// for: nothing is changed or held back, whatever a policy says, and one that fails
// is logged and passed over. Of a policy in PolicyObserve nobody is told. Each waits
// for an instance no longer than its limits.timeout and runs no longer than that.
// What every policy said is kept among the Decisions.
//
// ctx is for what it carries: that the caller has gone does not end a review, since
// policies keep no less of an eye on runs that nobody waits for.
func (h *Host) Review(ctx context.Context, o policy.Outcome) []PolicyWarning {
	ref, err := h.modules.Acquire()
	if err != nil {
		return nil
	}
	defer ref.Release()
	asked := ref.Value().chain.reviews
	if len(asked) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var out []PolicyWarning
	seen := o
	d := Decision{At: time.Now(), Hook: manifest.HookResult, Request: o.Request, Outcome: &seen, Allowed: true}
	seen.Request = policy.Request{}
	for _, p := range asked {
		m, err := p.review(ctx, o)
		p.calls.count(err != nil)
		d.append(p, PolicyRuling{Limits: o.Request.Limits, Warnings: m.Warnings}, err)
		if err != nil {
			h.log.Warn("policy failed to look at the outcome of a run", "policy", p.name, "error", err)
		}
		if p.mode == PolicyObserve {
			continue
		}
		for _, w := range m.Warnings {
			out = append(out, PolicyWarning{p.name, w.Code, w.Reason})
		}
	}
	h.decisions.record(&d)
	return out
}

// review asks one policy.
func (p boundPolicy) review(ctx context.Context, o policy.Outcome) (policy.Remarks, error) {
	if p.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.patience)
		defer cancel()
	}
	p.hide(&o)
	reply, err := p.module.Call(ctx, wasm.OpResult, o.AppendJSON(nil), nil)
	if err != nil {
		return policy.Remarks{}, err
	}
	r, err := policy.DecodeRemarks(reply)
	return r, p.calls.read(err)
}

// hide takes from o what the policy did not ask for.
func (p boundPolicy) hide(o *policy.Outcome) {
	p.show(&o.Request)
	if !p.sees("files") {
		o.Changed = nil
	}
	if !p.sees("output") {
		o.Stdout, o.Stderr = "", ""
	}
}
