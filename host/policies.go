package host

import (
	"context"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// PolicyMode says what a policy's verdict does.
type PolicyMode string

const (
	// PolicyDeny enforces verdicts: a deny stops the request, limits are tightened.
	PolicyDeny PolicyMode = "deny"
	// PolicyWarn lets everything pass unchanged and tells the caller what would
	// have been denied.
	PolicyWarn PolicyMode = "warn"
	// PolicyObserve lets everything pass unchanged; verdicts are recorded only.
	PolicyObserve PolicyMode = "observe"
)

// policies are asked in order.
type policies []boundPolicy

// chain is every policy, and those that are asked at each hook, which is found out once
// for all requests.
type chain struct{ all, admits, reviews policies }

func newChain(all policies) chain {
	return chain{all, all.at(manifest.HookAdmit), all.at(manifest.HookResult)}
}

// boundPolicy is one policy of the chain with its configuration.
type boundPolicy struct {
	name    string
	version PluginVersion
	needs   []string
	module  module
	calls   *calls
	// hooks are when it is asked; empty is manifest.HookAdmit. patience is how long
	// a review waits for an instance.
	hooks    []string
	patience time.Duration
	mode     PolicyMode // empty is PolicyDeny
	// failOpen lets requests pass that the policy failed to judge.
	failOpen bool
}

// PolicyError: a policy denied the request.
type PolicyError struct {
	// Policy is the plugin's name, Code its stable word, Reason its sentence for the caller.
	Policy, Code, Reason string
	// Cause is set when the policy failed rather than decided. It is for logs.
	Cause error
}

func (e *PolicyError) Error() string {
	s := "denied by policy " + e.Policy + ": " + e.Reason
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *PolicyError) Unwrap() error { return e.Cause }

// Ruling is what the chain made of a request that may run.
type Ruling struct {
	// Limits to run with, never wider than those of the request.
	Limits policy.Limits
	// Warnings are for the caller: what policies in PolicyWarn would have denied.
	Warnings []PolicyWarning
}

// PolicyWarning is a deny that is not enforced.
type PolicyWarning struct{ Policy, Code, Reason string }

// Admit asks every policy about r, in order. A deny of a policy whose verdicts
// are enforced stops the chain with a *PolicyError; so does one that fails in any
// way, unless its configuration lets requests pass then. Each policy sees of r
// only what its manifest asked for, and the limits as tightened so far. What every
// policy said is kept among the Decisions.
func (h *Host) Admit(ctx context.Context, r policy.Request) (Ruling, error) {
	ref, err := h.modules.Acquire()
	if err != nil {
		return Ruling{}, err
	}
	defer ref.Release()
	asked := ref.Value().chain.admits
	d := Decision{At: time.Now(), Hook: manifest.HookAdmit, Request: r, Rulings: make([]PolicyRuling, 0, len(asked))}
	pctx, phase := h.Telemetry().Phase(ctx, telemetry.PhasePolicy)
	ruling, err := asked.admit(pctx, r, &d, h.log)
	phase.End(err)
	h.judged(&d)
	if ctx.Err() == nil && len(asked) > 0 {
		d.Allowed = err == nil
		h.decisions.record(&d)
	}
	return ruling, err
}

func (ps policies) admit(ctx context.Context, r policy.Request, d *Decision, log hclog.Logger) (Ruling, error) {
	var out Ruling
	for _, p := range ps {
		began := time.Now()
		v, err := p.ask(ctx, r)
		if err != nil && ctx.Err() != nil {
			return Ruling{}, ctx.Err()
		}
		p.calls.count(err != nil)
		d.append(p, PolicyRuling{Limits: r.Limits, Verdict: v, took: time.Since(began)}, err)
		enforced := p.mode == PolicyDeny || p.mode == ""
		switch {
		case err != nil && (p.failOpen || !enforced):
			log.Warn("policy failed, request passed", "policy", p.name, "error", err)
		case err != nil:
			log.Error("policy failed, request denied", "policy", p.name, "error", err)
			return Ruling{}, &PolicyError{Policy: p.name, Code: "policy_failed", Reason: "the request could not be checked", Cause: err}
		case v.Decision == policy.Allow && enforced:
			r.Limits = r.Limits.Tighten(v.Limits)
		case v.Decision == policy.Allow:
		case enforced:
			return Ruling{}, &PolicyError{Policy: p.name, Code: v.Code, Reason: v.Reason}
		case p.mode == PolicyWarn:
			out.Warnings = append(out.Warnings, PolicyWarning{p.name, v.Code, v.Reason})
		}
	}
	out.Limits = r.Limits
	return out, nil
}

func (p boundPolicy) ask(ctx context.Context, r policy.Request) (policy.Verdict, error) {
	p.show(&r)
	out, err := p.module.Call(ctx, wasm.OpAdmit, r.AppendJSON(nil), nil)
	if err != nil {
		return policy.Verdict{}, err
	}
	v, err := policy.DecodeVerdict(out)
	return v, p.calls.read(err)
}

// at are the policies that are asked at a hook.
func (ps policies) at(hook string) policies {
	var out policies
	for _, p := range ps {
		if (&manifest.Manifest{Hooks: p.hooks}).Asks(hook) {
			out = append(out, p)
		}
	}
	return out
}

func (p boundPolicy) sees(what string) bool { return slices.Contains(p.needs, what) }

// show takes from r what the policy did not ask for.
func (p boundPolicy) show(r *policy.Request) {
	if !p.sees("code") {
		r.Code = ""
	}
	if !p.sees("args") {
		r.Args = nil
	}
	if !p.sees("files") {
		r.Files = nil
	}
}
