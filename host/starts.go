package host

import (
	"context"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/starts"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/policy"
)

// StartEntry is the entry point of work that a function starts: a Bash script in the
// working directory of its snapshot.
const StartEntry = "start.sh"

// Starts lets functions start sandboxes (package starts). The platform says whom they
// belong to and what they may use up; Sessions and Plan are the host's and are filled
// in, and so is what o leaves open. Policies judge each of them. The caller closes the
// Service before the host.
func (h *Host) Starts(o starts.Options) (*starts.Service, error) {
	o.Sessions = h.keeping.minted
	o.Plan = h.planStart
	if o.Log == nil {
		o.Log = h.log.Named("starts")
	}
	if o.Now == nil {
		o.Now = h.o.Now
	}
	return starts.New(o)
}

// planStart runs StartEntry the way that t runs Bash.
func (h *Host) planStart(ctx context.Context, t session.Target, org string, _ starts.Sandbox) (backend.RunSpec, error) {
	const code = ". ./" + StartEntry + "\n"
	id, toolchain, plan, err := h.Plan(ctx, t, "bash", nil)
	if err != nil {
		return backend.RunSpec{}, err
	}
	limits := h.Limits(t, backend.Limits{})
	asked := policy.Limits{
		CPUMS: limits.CPU.Milliseconds(), MemoryBytes: limits.MemoryBytes, Processes: limits.Processes,
		StdoutBytes: limits.StdoutBytes, StderrBytes: limits.StderrBytes,
	}
	ruling, err := h.Admit(ctx, policy.Request{
		Org: org, Via: string(ViaInternal), Language: id, Toolchain: toolchain, Config: t.Config, Network: "none",
		Limits: asked, CodeBytes: int64(len(code)), Code: code,
	})
	if err != nil {
		return backend.RunSpec{}, fmt.Errorf("policy: %w", err)
	}
	granted := asked.Tighten(ruling.Limits)
	spec := backend.RunSpec{
		Program: backend.Program{File: plan.File, Source: []byte(code)}, Env: plan.Env, Dir: backend.DataDir,
		Limits: backend.Limits{
			Wall: time.Duration(granted.WallMS) * time.Millisecond, CPU: time.Duration(granted.CPUMS) * time.Millisecond,
			MemoryBytes: granted.MemoryBytes, CPUs: limits.CPUs, Processes: granted.Processes,
			StdoutBytes: granted.StdoutBytes, StderrBytes: granted.StderrBytes,
		},
	}
	for _, s := range plan.Steps {
		spec.Steps = append(spec.Steps, backend.Step{Name: s.Name, Argv: s.Argv, Args: s.Args})
	}
	return spec, nil
}
