package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/hashicorp/go-hclog"
)

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

// loadModule makes a WebAssembly plugin ready for calls.
func loadModule(ctx context.Context, f found, config json.RawMessage, cacheDir string, log hclog.Logger) (*wasm.Module, error) {
	spec, err := moduleSpec(f, log)
	if err != nil {
		return nil, err
	}
	spec.Config, spec.CacheDir = config, cacheDir
	return wasm.Load(ctx, spec)
}

// loadModules loads the policy chain and the language tables into h. On
// failure the caller closes what h has by then.
func (h *Host) loadModules(ctx context.Context) error {
	r, cache := h.registry, filepath.Join(h.o.CacheDir, "modules")
	for _, p := range h.o.Config.Policies {
		f, err := r.plugin(manifest.KindPolicy, p.Plugin)
		if err != nil {
			return err
		}
		config, err := pluginConfig(f, p.Config)
		if err != nil {
			return err
		}
		m, err := loadModule(ctx, f, config, cache, h.log)
		if err != nil {
			return fmt.Errorf("policy %q: %w", p.Plugin, err)
		}
		h.closers = append(h.closers, m.Close)
		h.policies = append(h.policies, boundPolicy{name: f.m.Name, needs: f.m.Needs, module: m})
	}
	for _, name := range h.o.Config.Languages {
		f, err := r.plugin(manifest.KindLanguage, name)
		if err != nil {
			return err
		}
		m, err := loadModule(ctx, f, nil, cache, h.log)
		if err != nil {
			return fmt.Errorf("language table %q: %w", name, err)
		}
		h.closers = append(h.closers, m.Close)
		table, err := listLanguages(ctx, m)
		if err != nil {
			return fmt.Errorf("language table %q: %w", name, err)
		}
		h.languages.add(name, m, table)
	}
	return nil
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
