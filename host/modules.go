package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/hashicorp/go-hclog"
)

// module is a loaded WebAssembly plugin.
type module interface {
	Call(ctx context.Context, op uint32, input, out []byte) ([]byte, error)
	Close(ctx context.Context) error
}

// moduleSet is the policy chain and the language tables of one moment. It is
// immutable: a swap makes another, which shares the modules that stay.
type moduleSet struct {
	chain     chain
	languages languages
	parts     []*part
}

// part is one loaded module with the number of sets that hold it.
type part struct {
	found  found
	config string // as the operator wrote it
	module *wasm.Module
	calls  calls // all and failed of policies only
	sets   atomic.Int32
}

// failures counts failed calls by reason: those of the runtime, and answers that nobody
// could read.
func (p *part) failures(s wasm.Stats) map[string]uint64 {
	by := make(map[string]uint64, len(s.Failures)+1)
	for reason, n := range s.Failures {
		by[string(reason)] = n
	}
	by["unreadable"] = p.calls.unreadable.Load()
	return by
}

// release gives the modules of a set up. Those that no set holds are closed.
func (s *moduleSet) release(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(s.parts) {
		if p.sets.Add(-1) == 0 {
			errs = append(errs, p.module.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// part returns the module of a plugin with a config, nil when the set has none.
func (s *moduleSet) part(kind manifest.Kind, name, config string) *part {
	for _, p := range s.parts {
		if p.found.m.Kind == kind && p.found.m.Name == name && p.config == config {
			return p
		}
	}
	return nil
}

func newModules(s *moduleSet) *handoff.Slot[*moduleSet] {
	return handoff.New(s, func(ctx context.Context, s *moduleSet) error { return s.release(ctx) })
}

// assembly makes a set of the configured modules.
type assembly struct {
	registry *registry
	config   Config
	cacheDir string
	log      hclog.Logger
	// before is the set in service, whose modules are used again, except the
	// ones of next.
	before *moduleSet
	next   *found
}

func (h *Host) assembly() assembly {
	return assembly{registry: h.registry, config: *h.config(), cacheDir: filepath.Join(h.o.CacheDir, "modules"), log: h.log}
}

// make loads what is not loaded. Nothing is left of it on failure.
func (a assembly) make(ctx context.Context) (_ *moduleSet, err error) {
	s := &moduleSet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release(context.WithoutCancel(ctx)))
		}
	}()
	var all policies
	for _, c := range a.config.Policies {
		p, err := a.part(ctx, s, manifest.KindPolicy, c.Plugin, c.Config)
		if err != nil {
			return s, fmt.Errorf("policy %q: %w", c.Plugin, err)
		}
		all = append(all, boundPolicy{
			name: p.found.m.Name, version: versionOf(p.found), needs: p.found.m.Needs, module: p.module, calls: &p.calls,
			mode: c.Mode, failOpen: c.FailOpen, hooks: p.found.m.Hooks, patience: p.module.Info().Limits.Timeout,
		})
	}
	s.chain = newChain(all)
	for _, name := range a.config.Languages {
		p, err := a.part(ctx, s, manifest.KindLanguage, name, nil)
		if err != nil {
			return s, fmt.Errorf("language table %q: %w", name, err)
		}
		table, err := listLanguages(ctx, p.module)
		if err != nil {
			return s, fmt.Errorf("language table %q: %w", name, err)
		}
		s.languages.add(name, p.module, &p.calls, table)
	}
	return s, nil
}

// part puts one module into s, once: a chain that asks a policy twice has it once.
func (a assembly) part(ctx context.Context, s *moduleSet, kind manifest.Kind, name string, config json.RawMessage) (*part, error) {
	if p := s.part(kind, name, string(config)); p != nil {
		return p, nil
	}
	replaced := a.next != nil && a.next.m.Kind == kind && a.next.m.Name == name
	if a.before != nil && !replaced {
		if p := a.before.part(kind, name, string(config)); p != nil {
			p.sets.Add(1)
			s.parts = append(s.parts, p)
			return p, nil
		}
	}
	var f found
	if replaced {
		f = *a.next
	} else {
		var err error
		if f, err = a.registry.plugin(kind, name); err != nil {
			return nil, err
		}
	}
	var complete json.RawMessage // tables take none
	if kind == manifest.KindPolicy {
		var err error
		if complete, err = pluginConfig(f, config); err != nil {
			return nil, err
		}
	}
	m, err := loadModule(ctx, f, complete, a.cacheDir, a.log)
	if err != nil {
		return nil, err
	}
	p := &part{found: f, config: string(config), module: m}
	p.sets.Store(1)
	s.parts = append(s.parts, p)
	return p, nil
}

// loadModule makes a WebAssembly plugin ready for calls.
func loadModule(ctx context.Context, f found, config json.RawMessage, cacheDir string, log hclog.Logger) (*wasm.Module, error) {
	spec, err := moduleSpec(f, log)
	if err != nil {
		return nil, err
	}
	spec.Config, spec.CacheDir = config, cacheDir
	return wasm.Load(ctx, spec)
}

// moduleSpec reads and verifies a WebAssembly plugin. What the module may import
// and use is what its manifest says, never more.
func moduleSpec(f found, log hclog.Logger) (wasm.Spec, error) {
	code, err := f.m.ReadArtifact(f.status.Dir)
	if err != nil {
		return wasm.Spec{}, err
	}
	return wasm.Spec{
		Name:          f.m.Name,
		Module:        code,
		ABI:           string(f.m.ABI),
		Imports:       f.m.Imports,
		WASI:          f.m.WASI,
		Deterministic: f.m.Deterministic,
		Log:           log.Named(f.m.Name),
		Limits: wasm.Limits{
			MemoryBytes: f.m.Limits.Memory,
			Timeout:     f.m.Limits.Timeout,
			Fuel:        f.m.Limits.Fuel,
			Instances:   f.m.Limits.Instances,
			InputBytes:  f.m.Limits.InputBytes,
			OutputBytes: f.m.Limits.OutputBytes,
		},
	}, nil
}

func listLanguages(ctx context.Context, m module) (language.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	reply, err := m.Call(ctx, wasm.OpList, nil, nil)
	if err != nil {
		return language.Table{}, err
	}
	return language.DecodeTable(reply)
}

// pluginConfig checks an operator's config against the plugin's schema before
// anything is launched.
func pluginConfig(f found, config json.RawMessage) (json.RawMessage, error) {
	if len(config) == 0 {
		config = emptyConfig
	}
	complete, err := f.m.CompleteConfig(config)
	if err != nil {
		return nil, fmt.Errorf("config of plugin %q: %w", f.m.Name, err)
	}
	return complete, nil
}
