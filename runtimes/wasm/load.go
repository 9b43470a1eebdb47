package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Load verifies and compiles a module and makes all its instances ready. It runs
// guest code only after every check that needs none. ctx bounds the start of the
// instances; it has no hold on the Module that Load returns, which its owner must
// Close.
//
// The error is an [ErrRefused] when the module breaks a rule, a [*CallError] when
// an instance fails to start, and says which field it is about when the Spec is
// wrong. Nothing is left behind then.
func Load(ctx context.Context, spec Spec) (*Module, error) {
	return load(ctx, spec, fuelStop{})
}

// Check says why [Load] would refuse a module, and else what it would be; it runs
// none of it: no instance is made, nothing is kept, and the version of the ABI is
// not known. It does not read Spec.Config. The module is validated whole and not
// translated, which takes a fraction of the time.
//
// The error is an [ErrRefused] when the module breaks a rule, and says which field
// it is about when the Spec is wrong.
func Check(ctx context.Context, spec Spec) (_ Info, err error) {
	defer wrap(spec.Name, &err)
	spec.CacheDir = ""
	m, code, err := prepare(spec, fuelStop{})
	if err != nil {
		return Info{}, err
	}
	m.stop = checkOnly{m.stop}
	defer m.free()
	if err := m.link(ctx, code); err != nil {
		return Info{}, err
	}
	return m.Info(), nil
}

// checkOnly is the stopper of a module that never runs.
type checkOnly struct{ stopper }

func (c checkOnly) configure(wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.stopper.configure(wazero.NewRuntimeConfigInterpreter())
}

// wrap names the module in an error that does not do so itself.
func wrap(name string, err *error) {
	if _, ok := (*err).(*CallError); *err != nil && !ok {
		*err = fmt.Errorf("wasm module %q: %w", name, *err)
	}
}

func load(ctx context.Context, spec Spec, stop stopper) (_ *Module, err error) {
	defer wrap(spec.Name, &err)
	m, code, err := prepare(spec, stop)
	if err != nil {
		return nil, err
	}
	if err := m.open(ctx, code); err != nil {
		for range len(m.idle) {
			(<-m.idle).close()
		}
		m.free()
		return nil, err
	}
	m.life, m.end = context.WithCancel(context.Background())
	go m.own()
	return m, nil
}

// prepare makes every check that needs no compilation, and returns the module and
// the code to compile.
func prepare(spec Spec, stop stopper) (*Module, []byte, error) {
	limited := spec.Limits.Fuel > 0
	if err := spec.check(); err != nil {
		return nil, nil, err
	}
	conv, err := spec.convention()
	if err != nil {
		return nil, nil, err
	}
	module, err := conv.unpack(spec.Module)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	code, h, err := harden(module)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	for _, im := range h.imports {
		if err := conv.grants(&spec, im); err != nil {
			return nil, nil, err
		}
	}
	if most := uint64(spec.Limits.MemoryBytes); h.memoryBytes > most {
		return nil, nil, fmt.Errorf("%w: module needs %d bytes of memory to start, its limit is %d", ErrRefused, h.memoryBytes, most)
	}
	rewritten, err := stop.rewrite(module, code)
	switch {
	case err == nil:
		code = rewritten
	case !errors.Is(err, meter.ErrUnsupported):
		return nil, nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case !spec.Unmetered:
		return nil, nil, fmt.Errorf("%w: its code cannot be metered: %w", ErrRefused, err)
	case limited:
		return nil, nil, fmt.Errorf("%w: limits.fuel cannot be kept: %w", ErrRefused, err)
	default:
		stop = contextStop{}
		spec.Log.Warn("module is not metered: guest code that runs long without a loop cannot be stopped", "module", spec.Name, "reason", err)
	}
	digest := sha256.Sum256(spec.Module)
	spec.Module = nil
	m := &Module{
		spec:       spec,
		convention: conv,
		epoch:      time.Now(),
		digest:     hex.EncodeToString(digest[:]),
		stop:       stop,
		guestLog:   newGuestLog(spec.Log),
		idle:       make(chan *instance, spec.Limits.Instances),
		spent:      make(chan struct{}, spec.Limits.Instances),
		done:       make(chan struct{}),
	}
	for _, im := range h.imports {
		m.imports = append(m.imports, im.module+"."+im.name)
	}
	slices.Sort(m.imports)
	m.imports = slices.Compact(m.imports)
	return m, code, nil
}

// open compiles the module and fills the pool. Its caller frees what it has made
// when it fails.
func (m *Module) open(ctx context.Context, code []byte) error {
	if err := m.link(ctx, code); err != nil {
		return err
	}
	for range m.spec.Limits.Instances {
		in, err := m.newInstance(ctx)
		if err != nil {
			return err
		}
		m.idle <- in
	}
	return nil
}

// link compiles the module and holds it against the ABI and what it is granted.
func (m *Module) link(ctx context.Context, code []byte) error {
	if err := m.compile(ctx, code); err != nil {
		return err
	}
	if err := m.convention.check(m.compiled); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := m.provide(ctx, m.runtime); err != nil {
		return err
	}
	if err := m.convention.provide(ctx, m, m.runtime); err != nil {
		return err
	}
	if err := m.stop.provide(ctx, m.runtime); err != nil {
		return err
	}
	if err := m.checkLinks(); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// checkLinks compares what the module imports with what provide has instantiated.
// Instantiating would find the same, but could not be told from a trap.
func (m *Module) checkLinks() error {
	for _, f := range m.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		var have api.FunctionDefinition
		if host := m.runtime.Module(module); host != nil {
			have = host.ExportedFunctionDefinitions()[name]
		}
		switch {
		case have == nil:
			return fmt.Errorf("module imports %s.%s, which this host does not offer", module, name)
		case !sameSignature(f, have.ParamTypes(), have.ResultTypes()):
			return fmt.Errorf("module imports %s.%s as %s, it is %s", module, name,
				signature(f.ParamTypes(), f.ResultTypes()), signature(have.ParamTypes(), have.ResultTypes()))
		}
	}
	return nil
}

func sameSignature(f api.FunctionDefinition, params, results []api.ValueType) bool {
	return slices.Equal(f.ParamTypes(), params) && slices.Equal(f.ResultTypes(), results)
}

func signature(params, results []api.ValueType) string {
	names := func(types []api.ValueType) string {
		list := make([]string, len(types))
		for i, t := range types {
			list[i] = api.ValueTypeName(t)
		}
		return strings.Join(list, ", ")
	}
	s := "(" + names(params) + ")"
	if len(results) > 0 {
		s += " -> " + names(results)
	}
	return s
}
