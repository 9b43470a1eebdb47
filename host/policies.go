package host

import (
	"context"
	"slices"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// policies are a chain.
type policies []boundPolicy

// boundPolicy is one policy of the chain with its configuration.
type boundPolicy struct {
	name   string
	needs  []string
	module module
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

// Admit asks every policy about r, in order, and returns the limits to run
// with, which are never wider than r.Limits. A deny stops the chain with a
// *PolicyError; so does a policy that fails in any way. Each policy sees of r
// only what its manifest asked for, and the limits as tightened so far.
func (h *Host) Admit(ctx context.Context, r policy.Request) (policy.Limits, error) {
	ref, err := h.modules.Acquire()
	if err != nil {
		return policy.Limits{}, err
	}
	defer ref.Release()
	return ref.Value().policies.admit(ctx, r, h.log)
}

func (chain policies) admit(ctx context.Context, r policy.Request, log hclog.Logger) (policy.Limits, error) {
	for _, p := range chain {
		v, err := p.ask(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return policy.Limits{}, ctx.Err()
			}
			log.Error("policy failed, request denied", "policy", p.name, "error", err)
			return policy.Limits{}, &PolicyError{Policy: p.name, Code: "policy_failed", Reason: "the request could not be checked", Cause: err}
		}
		if v.Decision != policy.Allow {
			return policy.Limits{}, &PolicyError{Policy: p.name, Code: v.Code, Reason: v.Reason}
		}
		r.Limits = r.Limits.Tighten(v.Limits)
	}
	return r.Limits, nil
}

func (p boundPolicy) ask(ctx context.Context, r policy.Request) (policy.Verdict, error) {
	if !slices.Contains(p.needs, "code") {
		r.Code = ""
	}
	if !slices.Contains(p.needs, "args") {
		r.Args = nil
	}
	if !slices.Contains(p.needs, "files") {
		r.Files = nil
	}
	out, err := p.module.Call(ctx, wasm.OpAdmit, r.AppendJSON(nil), nil)
	if err != nil {
		return policy.Verdict{}, err
	}
	return policy.DecodeVerdict(out)
}
