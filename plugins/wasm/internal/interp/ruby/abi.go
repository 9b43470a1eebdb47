package ruby

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// The exports of the build that are used, named by their interface types. Values of
// Ruby are handles; strings and lists are given by address and length, in memory
// that the callee frees.
const (
	exportRealloc     = "cabi_realloc"
	exportInit        = "ruby-init: func(args: list<string>) -> ()"
	exportInitLibrary = "ruby-init-loadpath: func() -> ()"
	exportEval        = "rb-eval-string-protect: func(str: string) -> tuple<handle<rb-abi-value>, s32>"
	exportIntern      = "rb-intern: func(name: string) -> u32"
	exportSend        = "rb-funcallv-protect: func(recv: handle<rb-abi-value>, mid: u32, args: list<handle<rb-abi-value>>) -> tuple<handle<rb-abi-value>, s32>"
)

// vm is an instance and the context of calls into it.
type vm struct {
	ctx context.Context
	api.Module
}

func (v *vm) call(name string, args ...uint64) (uint32, error) {
	f := v.ExportedFunction(name)
	if f == nil {
		return 0, fmt.Errorf("the module has no export %q", name)
	}
	res, err := f.Call(v.ctx, args...)
	if err != nil || len(res) == 0 {
		return 0, err
	}
	return uint32(res[0]), nil
}

var errBounds = errors.New("an address out of bounds")

// text puts a string into the guest's memory.
func (v *vm) text(s string) (ptr, n uint64, err error) {
	p, err := v.call(exportRealloc, 0, 0, 1, uint64(len(s)))
	if err == nil && !v.Memory().WriteString(p, s) {
		err = errBounds
	}
	return uint64(p), uint64(len(s)), err
}

// initialize starts Ruby with a command line.
func (v *vm) initialize(args []string) error {
	if _, err := v.call("_initialize"); err != nil {
		return err
	}
	list, err := v.call(exportRealloc, 0, 0, 4, uint64(8*len(args)))
	if err != nil {
		return err
	}
	for i, a := range args {
		ptr, n, err := v.text(a + "\x00")
		if err != nil {
			return err
		}
		at := list + uint32(8*i)
		if !v.Memory().WriteUint32Le(at, uint32(ptr)) || !v.Memory().WriteUint32Le(at+4, uint32(n)) {
			return errBounds
		}
	}
	if _, err := v.call(exportInit, uint64(list), uint64(len(args))); err != nil {
		return err
	}
	_, err = v.call(exportInitLibrary)
	return err
}

// eval evaluates text at the top level. state is not 0 if it raised something.
func (v *vm) eval(source string) (value, state uint32, err error) {
	ptr, n, err := v.text(source)
	if err != nil {
		return 0, 0, err
	}
	res, err := v.call(exportEval, ptr, n)
	if err != nil {
		return 0, 0, err
	}
	value, ok := v.Memory().ReadUint32Le(res)
	state, ok2 := v.Memory().ReadUint32Le(res + 4)
	if !ok || !ok2 {
		return 0, 0, errBounds
	}
	return value, state, nil
}

// intern returns the id of a name.
func (v *vm) intern(name string) (uint32, error) {
	ptr, n, err := v.text(name + "\x00")
	if err != nil {
		return 0, err
	}
	return v.call(exportIntern, ptr, n)
}

// send calls a method without arguments.
func (v *vm) send(object, method uint32) error {
	_, err := v.call(exportSend, uint64(object), uint64(method), 0, 0)
	return err
}

// instantiateHost adds what the module imports besides WASI: handles, which stand for
// themselves, and JavaScript, which there is none of.
func instantiateHost(ctx context.Context, m *codecache.Module) error {
	hosts := map[string]wazero.HostModuleBuilder{}
	for _, f := range m.Code.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == wasi_snapshot_preview1.ModuleName || module == meter.SliceModule {
			continue
		}
		if hosts[module] == nil {
			hosts[module] = m.Runtime.NewHostModuleBuilder(module)
		}
		host := func(context.Context, api.Module, []uint64) { panic(errNoJavaScript) }
		if module == "canonical_abi" {
			host = func(context.Context, api.Module, []uint64) {}
		}
		hosts[module].NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(host), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range hosts {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

var errNoJavaScript = errors.New("this sandbox has no JavaScript that Ruby could call")
