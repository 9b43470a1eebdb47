package exec

import (
	"context"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/policy"
)

// choose says where a run goes: the session that it names, else the first
// session of its files that may be continued, else the one it names although that
// has vanished, else a new one on the default target; x is nil where there is no
// session yet, and again then names the one to be made again. Nothing is leased or
// woken. A session whose fate is not known is an error: a run is not moved elsewhere
// on doubt.
func (i *Interpreter) choose(ctx context.Context, f *finder, in *CodeRun) (t session.Target, x *finding, again string, err error) {
	if in.SessionID != "" {
		x, err := f.lookup(ctx, in.SessionID)
		if err == nil {
			return x.Target, x, "", nil
		}
		if !gone(err) {
			return t, nil, "", err
		}
	}
	var shadowed map[string]bool // looked for once, and only where a session could be continued
	for k := range in.Files {
		ref := &in.Files[k]
		if sharedRef(ref) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return t, nil, "", err
		}
		x, err := f.lookup(ctx, ref.session(in.SessionID))
		if err == nil && continuable(f.owner, x.Sandbox.Metadata) {
			if shadowed == nil {
				if shadowed, err = f.shadowed(ctx, in); err != nil {
					return t, nil, "", err
				}
			}
			if !shadowed[x.ID] {
				return x.Target, x, "", nil
			}
		}
		if err != nil && !gone(err) {
			return t, nil, "", err
		}
	}
	if in.SessionID != "" && in.SessionID != f.foreign {
		// Whoever else names it at the same time gets the same one.
		t, err = i.host.Sessions().Home(ctx, f.owner, in.SessionID)
		if err == nil {
			return t, nil, in.SessionID, nil
		}
		if !gone(err) {
			return t, nil, "", err
		}
	}
	t, err = i.host.Sessions().Default(ctx, f.owner)
	if err != nil {
		return t, nil, "", fmt.Errorf("find the default sandbox target: %w", err)
	}
	return t, nil, "", nil
}

// shadowed are the sessions that have a file which gives way to another session's of
// the same name: to run there would destroy the first, which has to stay downloadable
// under its id. It looks at each ref twice, however many there are.
func (f *finder) shadowed(ctx context.Context, in *CodeRun) (map[string]bool, error) {
	// later are sessions that a name comes from, from the end of the list on. Two of them
	// are another one than any session.
	type later struct{ one, two string }
	out, byName := make(map[string]bool), make(map[string]later)
	several := severalSources(in)
	for k := len(in.Files) - 1; k >= 0; k-- {
		name, err := names.Ref(in.Files[k].Name)
		if err != nil || !several[name] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id, l := in.Files[k].session(in.SessionID), byName[name]
		if l.one != "" && l.one != id || l.two != "" && l.two != id {
			out[id] = true
		}
		if id == l.one || id == l.two || l.two != "" {
			continue
		}
		if _, err := f.lookup(ctx, id); err != nil {
			continue // nothing comes from there
		}
		if l.one == "" {
			l.one = id
		} else {
			l.two = id
		}
		byName[name] = l
	}
	return out, nil
}

// severalSources are the names that a request has from more than one session.
func severalSources(in *CodeRun) map[string]bool {
	first, several := make(map[string]string, len(in.Files)), make(map[string]bool)
	for k := range in.Files {
		name, err := names.Ref(in.Files[k].Name)
		if err != nil {
			continue // it will be missing
		}
		id := in.Files[k].session(in.SessionID)
		if s, ok := first[name]; !ok {
			first[name] = id
		} else if s != id {
			several[name] = true
		}
	}
	return several
}

// order is a planned run: what a target will be asked to do.
type order struct {
	language string
	warnings []host.PolicyWarning
	request  policy.Request  // as it was admitted, with the limits in force
	spec     backend.RunSpec // without inputs, sandbox, and what is left out of its changes
}

// order plans in on t and has policies judge it.
func (i *Interpreter) order(ctx context.Context, c *call, t session.Target, sessionID string) (order, error) {
	in := c.in
	id, toolchain, plan, err := i.host.Plan(ctx, t, in.Lang, in.Args)
	if err != nil {
		return order{}, err
	}
	limits := i.host.Limits(t, backend.Limits{Wall: time.Duration(in.Timeout) * time.Millisecond})
	req := policy.Request{
		Org: c.principal.Org, User: c.principal.User, Via: string(c.principal.Via),
		Session: sessionID, Language: id, Toolchain: toolchain, Config: t.Config, Network: "none",
		Limits: policy.Limits{
			WallMS: limits.Wall.Milliseconds(), CPUMS: limits.CPU.Milliseconds(),
			MemoryBytes: limits.MemoryBytes, Processes: limits.Processes,
			StdoutBytes: limits.StdoutBytes, StderrBytes: limits.StderrBytes,
			ChangedFiles: int64(i.o.ChangedFiles), ChangedFileBytes: i.o.ChangedFileBytes,
		},
		CodeBytes: int64(len(in.Code)), Code: in.Code, Args: in.Args,
	}
	for _, f := range in.Files {
		// The size is found out when the file is fetched, which is work for a
		// request that was let in.
		req.Files = append(req.Files, policy.File{Name: f.Name, Size: -1})
	}
	asked := req.Limits
	ruling, err := i.host.Admit(ctx, req)
	if err != nil {
		return order{}, err
	}
	granted := asked.Tighten(ruling.Limits)
	limits.Wall = time.Duration(granted.WallMS) * time.Millisecond
	limits.CPU = time.Duration(granted.CPUMS) * time.Millisecond
	limits.MemoryBytes, limits.Processes = granted.MemoryBytes, granted.Processes
	limits.StdoutBytes, limits.StderrBytes = granted.StdoutBytes, granted.StderrBytes

	req.Limits = granted
	o := order{language: id, warnings: ruling.Warnings, request: req, spec: backend.RunSpec{
		RunID:   c.runID,
		Program: backend.Program{File: plan.File, Source: []byte(in.Code)},
		Env:     plan.Env,
		Limits:  limits,
		Collect: backend.CollectSpec{
			MaxFiles: int(granted.ChangedFiles), MaxFileBytes: granted.ChangedFileBytes,
			MaxDepth: i.o.ChangedDepth,
		},
	}}
	for _, s := range plan.Steps {
		o.spec.Steps = append(o.spec.Steps, backend.Step{Name: s.Name, Argv: s.Argv, Args: s.Args})
	}
	if c.program != nil {
		if err := c.program.equip(&o, t); err != nil {
			return order{}, err
		}
	}
	check := o.spec
	check.Ref = backend.Ref{Config: t.Config, ID: "-"} // which sandbox comes later
	return o, check.Check()
}
