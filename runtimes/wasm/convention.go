package wasm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Interfaces of modules, for [Spec.ABI].
const (
	// ABIv1 is described by package abi.
	ABIv1 = "v1"
	// ABIOPA is what "opa build -t wasm" makes, as the module or as the whole bundle.
	ABIOPA = "opa"
)

// convention is how a host and a module of some interface talk.
type convention interface {
	// unpack returns the module in what Spec.Module is, as it can be hardened.
	unpack(data []byte) ([]byte, error)
	// grants says why a module may not import something, or returns nil.
	grants(s *Spec, im moduleImport) error
	// check holds the module's exports against the interface.
	check(wazero.CompiledModule) error
	// provide instantiates the interface's own imports.
	provide(ctx context.Context, m *Module, rt wazero.Runtime) error
	// port makes what talks to one instance.
	port() port
	// version writes the version of the interface that a module reported.
	version(v uint32) string
	// revision is what the author calls this build; most say nothing.
	revision() string
}

// port talks to one instance. Its methods run guest code, between arm and disarm.
type port interface {
	// open is called once the module is instantiated.
	open(ctx context.Context, in *instance) error
	// configure hands the instance the operator's configuration.
	configure(ctx context.Context, in *instance) failure
	// invoke runs one operation and appends the reply to out. A trap is not
	// explained yet.
	invoke(ctx context.Context, in *instance, op uint32, input, out []byte) ([]byte, failure)
}

// convention is chosen by the spec.
func (s *Spec) convention() (convention, error) {
	switch s.ABI {
	case "", ABIv1:
		return conventionV1{}, nil
	case ABIOPA:
		if len(s.Imports) > 0 || s.WASI {
			return nil, errors.New("abi: a module made by opa imports neither host functions nor WASI")
		}
		return &conventionOPA{}, nil
	}
	return nil, fmt.Errorf("abi: %q is not supported, want %q or %q", s.ABI, ABIv1, ABIOPA)
}

// exported is a function that a module exports.
type exported struct {
	name            string
	params, results []api.ValueType
	optional        bool
}

// checkExported compares the functions of a module with those wanted.
func checkExported(compiled wazero.CompiledModule, wanted ...exported) error {
	functions := compiled.ExportedFunctions()
	for _, want := range wanted {
		f, ok := functions[want.name]
		if !ok && !want.optional {
			return fmt.Errorf("module does not export %s%s", want.name, signature(want.params, want.results))
		}
		if ok && !sameSignature(f, want.params, want.results) {
			return fmt.Errorf("module exports %s%s, want %s%s", want.name,
				signature(f.ParamTypes(), f.ResultTypes()), want.name, signature(want.params, want.results))
		}
	}
	return nil
}

// checkMemory holds for every interface.
func checkMemory(compiled wazero.CompiledModule) error {
	if _, ok := compiled.ExportedMemories()[abi.ExportMemory]; !ok {
		return fmt.Errorf("module does not export its %s", abi.ExportMemory)
	}
	return nil
}
