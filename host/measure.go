package host

import (
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/policy"
)

// Telemetry is the platform's; it may be nil, which measures nothing.
func (h *Host) Telemetry() *telemetry.Telemetry { return h.o.Platform.Telemetry }

// measurePlugins is how every plugin is now.
func (h *Host) measurePlugins() []telemetry.Plugin {
	var out []telemetry.Plugin
	at := make(map[string]int)
	for _, st := range h.Plugins() {
		if _, again := at[st.Name]; again {
			continue // an older version that stays for its sandboxes
		}
		at[st.Name] = len(out)
		p := telemetry.Plugin{Name: st.Name, Kind: st.Kind, Version: st.Version, State: string(st.State), Restarts: st.Restarts}
		if l := h.backends.line(st.Name); l != nil {
			if prog := l.program(); prog != nil {
				if u, ok := prog.sup.Now(); ok {
					p.LogDropped = u.proc.Dropped()
				}
			}
			for _, u := range l.slot.Uses() {
				p.Generations++
				p.InFlight += u.Calls
			}
		}
		out = append(out, p)
	}
	ref, err := h.modules.Acquire()
	if err != nil {
		return out // the host is closing
	}
	defer ref.Release()
	for _, part := range ref.Value().parts {
		if i, ok := at[part.found.m.Name]; ok {
			out[i].Module = measureModule(part)
		}
	}
	return out
}

func measureModule(p *part) *telemetry.Module {
	s := p.module.Stats()
	return &telemetry.Module{
		Calls: s.Calls, Discards: s.Discards, Refills: s.Refills, Waits: s.Waits, Waited: s.WaitTime.Seconds(),
		Fuel: s.Fuel, FuelHigh: s.FuelHigh, MemoryHigh: s.MemoryHighBytes, Instances: s.Instances, Idle: s.Idle,
		Failures: p.failures(s),
	}
}

// observe is told of every call of a program's processes.
func (p *program) observe(c process.Call) {
	p.calls.observe(c)
	p.telemetry.PluginCall(p.found.m.Name, c.Method, c.Code, c.Took, c.Blamed)
}

// changed is told of every state that a program's process comes into.
func (p *program) changed(before, now supervise.View) {
	p.telemetry.Emit(telemetry.Event{
		Kind: telemetry.EventState, Plugin: p.found.m.Name,
		From: string(pluginState(before.State)), To: string(pluginState(now.State)), Cause: now.Cause,
	})
}

// judged measures what policies said.
func (h *Host) judged(d *Decision) {
	for _, r := range d.Rulings {
		said := telemetry.PolicyAllow
		switch {
		case r.Error != "":
			said = telemetry.PolicyFailed
		case r.Verdict.Decision != policy.Allow:
			said = telemetry.PolicyDeny
		}
		h.Telemetry().PolicyAsked(r.Policy, string(r.Mode), said, r.took)
	}
}

// reconfigured is told of every change of the configuration that was tried.
func (h *Host) reconfigured(changes []string, err error) {
	t := h.Telemetry()
	t.Reconfigured(err)
	switch {
	case err != nil:
		t.Emit(telemetry.Event{Kind: telemetry.EventReload, Outcome: "refused", Cause: err.Error()})
	case len(changes) > 0:
		t.Emit(telemetry.Event{Kind: telemetry.EventReload, Outcome: "done"})
	}
}
