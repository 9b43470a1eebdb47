package host

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/internal/procstat"
	"github.com/caisson-run/caisson/manifest"
)

// PluginDetail is everything that is known of one plugin.
type PluginDetail struct {
	PluginStatus
	Description string `json:"description,omitempty"`
	Licence     string `json:"licence,omitempty"`
	// Path is the artifact, relative to Dir.
	Path string `json:"path,omitempty"`
	// Protocol lists the versions of the contract that it speaks, ABI that of a
	// module.
	Protocol []int  `json:"protocol,omitempty"`
	ABI      string `json:"abi,omitempty"`
	// Digest is that of the artifact that is in use, whether it is pinned or not; of the
	// one that is there where none is.
	Digest string `json:"digest,omitempty"`
	// Links are the functions that a module imports, as "module.name".
	Links []string `json:"links,omitempty"`
	// Capabilities, StateSchema, Imports and Needs are what the manifest grants, Lacks
	// what it says that the backend cannot do.
	Capabilities []string `json:"capabilities,omitempty"`
	Lacks        []string `json:"lacks,omitempty"`
	StateSchema  []string `json:"state_schema,omitempty"`
	Imports      []string `json:"imports,omitempty"`
	Needs        []string `json:"needs,omitempty"`
	// Hooks are when a policy is asked.
	Hooks []string `json:"hooks,omitempty"`
	// Env are the names of the variables that its process sees, never the values.
	Env []string `json:"env,omitempty"`
	// Configs are the ids of the named configs that it serves.
	Configs []string `json:"configs,omitempty"`
	// Warnings are what Lint finds odd, and nothing is refused for.
	Warnings []string `json:"warnings,omitempty"`
	// LastSwap is the latest that was tried or is under way.
	LastSwap *LastSwap `json:"last_swap,omitempty"`

	// Process is set for a running backend, Module for a loaded module.
	Process *ProcessDetail `json:"process,omitempty"`
	Module  *ModuleDetail  `json:"module,omitempty"`
}

// ProcessDetail is how a backend's process is now.
type ProcessDetail struct {
	// PID is zero while none runs.
	PID int `json:"pid,omitempty"`
	// Starts counts the processes of this version that became ready.
	Starts int `json:"starts"`
	// Calls counts the calls that are over, Failed those that count against the
	// plugin.
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"`
	// LogDropped counts lines that were dropped because it logs too much.
	LogDropped int64 `json:"log_dropped,omitempty"`
	// MemoryHigh is the most memory that the running process had, in bytes; zero where
	// the system does not tell.
	MemoryHigh int64 `json:"memory_high,omitempty"`
	// Generations are the versions that still have calls, the one in service first.
	Generations []GenerationUse `json:"generations"`
	// RetryAt is when it is started again, in backoff only.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// LastEnd is the last end that nobody asked for.
	LastEnd *PluginEnd `json:"last_end,omitempty"`
}

// GenerationUse is what is in flight on one generation.
type GenerationUse struct {
	Generation int   `json:"generation"`
	Calls      int64 `json:"calls"`
	// Held counts what may last, such as terminals.
	Held int64 `json:"held,omitempty"`
}

// PluginEnd is how a process ended by itself, or why it did not start.
type PluginEnd struct {
	At     time.Time     `json:"at"`
	Uptime time.Duration `json:"uptime_ns"`
	Cause  string        `json:"cause"`
	// Lines are the last that it logged, oldest first.
	Lines []string `json:"lines,omitempty"`
}

// ModuleDetail is what a loaded module has done.
type ModuleDetail struct {
	Digest string `json:"digest"`
	// Revision is what a bundle of Rego calls itself.
	Revision string `json:"revision,omitempty"`
	// Stop says what ends a call that takes too long: "fuel".
	Stop string `json:"stop"`
	// FuelLimit is what one call may use, FuelHigh the most that one did.
	FuelLimit int64  `json:"fuel_limit,omitempty"`
	FuelHigh  uint64 `json:"fuel_high"`
	Calls     uint64 `json:"calls"`
	// Failures counts failed calls by reason.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// Discards counts instances that a failed call cost, Refills those made in
	// their place.
	Discards uint64 `json:"discards"`
	Refills  uint64 `json:"refills"`
	// Waits counts calls that waited for an instance, Waited how long in all.
	Waits  uint64        `json:"waits"`
	Waited time.Duration `json:"waited_ns"`
	// MemoryLimit and MemoryHigh are bytes; the latter is the most that an
	// instance had.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	MemoryHigh  int64 `json:"memory_high"`
	Instances   int   `json:"instances"`
	Idle        int   `json:"idle"`
}

// PluginDetail describes one plugin that was found, as it is now.
func (h *Host) PluginDetail(name string) (PluginDetail, error) {
	i := slices.IndexFunc(h.registry.all(), func(f found) bool { return f.status.Name == name })
	if i < 0 {
		return PluginDetail{}, noPlugin{"plugin", name}
	}
	d := describe(h.registry.all()[i])
	all := h.Plugins()
	// The first is in service; further ones stay for their sandboxes.
	if i := slices.IndexFunc(all, func(st PluginStatus) bool { return st.Name == name }); i >= 0 {
		d.PluginStatus = all[i]
	}
	d.LastSwap = h.swaps.of(name)
	if l := h.backends.line(name); l != nil {
		l.describe(&d)
	}
	if ref, err := h.modules.Acquire(); err == nil {
		defer ref.Release()
		for _, p := range ref.Value().parts {
			if p.found.m.Name == name {
				p.describe(&d)
			}
		}
	}
	return d, nil
}

// describe is what the manifest says.
func describe(f found) PluginDetail {
	d := PluginDetail{PluginStatus: f.status}
	m := f.m
	if m == nil {
		return d
	}
	d.Description, d.Licence, d.Path = m.Description, m.Licence, m.Path
	d.Protocol, d.Capabilities, d.Lacks, d.StateSchema = m.Protocol, m.Capabilities, m.Lacks, m.StateSchema
	d.Imports, d.Needs, d.Hooks, d.Env = m.Imports, m.Needs, m.Hooks, m.Env
	if m.Runtime == manifest.RuntimeWASM {
		d.ABI = string(m.ABI)
	}
	return d
}

// describe adds how the processes are.
func (l *line) describe(d *PluginDetail) {
	p := l.program()
	if p == nil {
		return
	}
	v := p.sup.View()
	d.Process = &ProcessDetail{Starts: v.Starts, Calls: p.calls.all.Load(), Failed: p.calls.failed.Load(), RetryAt: v.RetryAt}
	if u, ok := p.sup.Now(); ok {
		pid := u.proc.PID()
		d.Process.PID, d.Process.LogDropped = pid, u.proc.Dropped()
		d.Process.MemoryHigh, _ = procstat.MemoryHigh(pid) // not every system tells it
		if d.Digest = p.found.m.SHA256; d.Digest == "" {   // nobody has looked at it
			d.Digest, _ = sumOfFile(procstat.Executable(pid))
		}
	}
	if e := v.LastEnd; e != nil {
		d.Process.LastEnd = &PluginEnd{At: e.At, Uptime: e.Uptime, Cause: e.Cause, Lines: e.Lines}
	}
	for _, u := range l.slot.Uses() {
		d.Process.Generations = append(d.Process.Generations, GenerationUse{Generation: u.Generation, Calls: u.Calls, Held: u.Pins})
	}
	for _, c := range p.configs() {
		d.Configs = append(d.Configs, c.ID)
	}
	d.Env = nil
	for _, kv := range p.env {
		name, _, _ := strings.Cut(kv, "=")
		d.Env = append(d.Env, name)
	}
}

// describe adds how the module is.
func (p *part) describe(d *PluginDetail) {
	i, s := p.module.Info(), p.module.Stats()
	d.Digest, d.Links = i.Digest, i.Imports
	d.Module = &ModuleDetail{
		Digest: i.Digest, Revision: i.Revision, Stop: i.Stop, FuelLimit: i.Limits.Fuel, FuelHigh: s.FuelHigh, Calls: s.Calls,
		Failures: p.failures(s), Discards: s.Discards, Refills: s.Refills, Waits: s.Waits, Waited: s.WaitTime,
		MemoryLimit: i.Limits.MemoryBytes, MemoryHigh: s.MemoryHighBytes, Instances: s.Instances, Idle: s.Idle,
	}
}

// sumOfFile is the SHA-256 digest of a file in hexadecimal.
func sumOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// PluginLog returns the last lines that a backend's process logged, oldest
// first, at most 200: of the running one, else of the last that ended by itself.
func (h *Host) PluginLog(name string) ([]string, error) {
	l := h.backends.line(name)
	if l == nil {
		return nil, noPlugin{"running backend", name}
	}
	p := l.program()
	if p == nil {
		return nil, nil
	}
	if u, ok := p.sup.Now(); ok {
		return u.proc.Lines(), nil
	}
	if e := p.sup.View().LastEnd; e != nil {
		return e.Lines, nil
	}
	return nil, nil
}
