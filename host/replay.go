package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/policy"
)

// maxReplayed is how many differences a report names.
const maxReplayed = 20

// Replay compares what a policy said to recorded requests with what another
// version says to the same.
type Replay struct {
	// Requests and outcomes that were judged again, and how many answers are the same.
	Requests int `json:"requests"`
	Same     int `json:"same"`
	// Failed counts requests that the other version failed to judge.
	Failed int `json:"failed"`
	// Stricter counts those that it denies and that were allowed, Looser the other
	// way round. The rest differ in limits, reason, code or warnings.
	Stricter int `json:"stricter"`
	Looser   int `json:"looser"`
	// Changes are the first differences, newest request first.
	Changes []ReplayChange `json:"changes,omitempty"`
}

// ReplayChange is one request about which two versions differ.
type ReplayChange struct {
	Decision *Decision `json:"decision"`
	// Was and Is are verdicts on a request.
	Was policy.Verdict `json:"was,omitzero"`
	Is  policy.Verdict `json:"is,omitzero"`
	// Warned and Warns are remarks on an outcome.
	Warned []policy.Remark `json:"warned,omitempty"`
	Warns  []policy.Remark `json:"warns,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// ReplayPolicy asks the version of a policy in use that lies in dir about the
// newest n recorded requests. Nothing changes.
func (h *Host) ReplayPolicy(ctx context.Context, name, dir string, n int) (Replay, error) {
	old, kind, err := h.inUse(name)
	if err != nil {
		return Replay{}, err
	}
	if kind != manifest.KindPolicy {
		return Replay{}, fmt.Errorf("plugin %q is not a policy", name)
	}
	f, err := h.nextVersion(old, dir)
	if err != nil {
		return Replay{}, err
	}
	ref, err := h.modules.Acquire()
	if err != nil {
		return Replay{}, err
	}
	defer ref.Release()
	a := h.assembly()
	a.before, a.next = ref.Value(), &f
	set, err := a.make(ctx)
	if err != nil {
		return Replay{}, err
	}
	r, err := h.replay(ctx, set, name, n)
	return r, errors.Join(err, set.release(context.WithoutCancel(ctx)))
}

// replay asks the policy of that name in a set about recorded requests.
func (h *Host) replay(ctx context.Context, set *moduleSet, name string, n int) (Replay, error) {
	var out Replay
	recorded, _ := h.decisions.last(n)
	for i := len(recorded) - 1; i >= 0; i-- {
		d := recorded[i]
		for _, was := range d.Rulings {
			if was.Policy != name || was.Error != "" {
				continue
			}
			is, err := set.judge(ctx, was, d)
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			out.add(d, was, is, err)
		}
	}
	return out, nil
}

// judge asks the policy that was asked before. Only what a policy says is set.
func (s *moduleSet) judge(ctx context.Context, was PolicyRuling, d *Decision) (PolicyRuling, error) {
	for _, p := range s.chain.all {
		if p.name != was.Policy {
			continue
		}
		r := d.Request
		r.Limits = was.Limits
		if d.Outcome == nil {
			v, err := p.ask(ctx, r)
			return PolicyRuling{Verdict: v}, err
		}
		o := *d.Outcome
		o.Request = r
		m, err := p.review(ctx, o)
		return PolicyRuling{Warnings: m.Warnings}, err
	}
	return PolicyRuling{}, fmt.Errorf("policy %q is not in the chain", was.Policy)
}

func (r *Replay) add(d *Decision, was, is PolicyRuling, err error) {
	r.Requests++
	c := ReplayChange{Decision: d, Was: was.Verdict, Is: is.Verdict, Warned: was.Warnings, Warns: is.Warnings}
	switch {
	case err != nil:
		r.Failed++
		c.Is, c.Warns, c.Error = policy.Verdict{}, nil, err.Error()
	case was.Verdict == is.Verdict && slices.Equal(was.Warnings, is.Warnings):
		r.Same++
		return
	case was.Verdict.Decision == policy.Allow && is.Verdict.Decision == policy.Deny:
		r.Stricter++
	case was.Verdict.Decision == policy.Deny && is.Verdict.Decision == policy.Allow:
		r.Looser++
	}
	if len(r.Changes) < maxReplayed {
		r.Changes = append(r.Changes, c)
	}
}

// replayed refuses a set whose policy fails to judge what was judged before.
func (h *Host) replayed(ctx context.Context, set *moduleSet, name string, n int) (*Replay, error) {
	r, err := h.replay(ctx, set, name, n)
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("it failed to judge %d of %d recorded requests", r.Failed, r.Requests)
	}
	return &r, err
}
