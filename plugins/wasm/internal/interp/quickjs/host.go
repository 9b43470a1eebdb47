package quickjs

import (
	"context"
	"fmt"
	"path"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// instantiateHost adds the module "env" that the build imports.
func instantiateHost(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("env")
	add := func(name string, params, results int, f func(v *vm, stack []uint64)) {
		types := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32}
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			for i := range params {
				stack[i] = uint64(uint32(stack[i])) // the high half is not defined
			}
			f(ctx.Value(vmKey{}).(*vm), stack)
		}), types[:params], types[:results]).Export(name)
	}
	add("host_call", 5, 1, func(v *vm, s []uint64) { s[0] = v.hostCall(s[0], s[1], s[3], s[4]) })
	// The run's context stops the guest, so this never has to.
	add("host_interrupt", 0, 1, func(_ *vm, s []uint64) { s[0] = 0 })
	add("host_get_timezone_offset", 2, 1, func(_ *vm, s []uint64) { s[0] = 0 }) // UTC
	add("host_promise_rejection", 3, 0, func(v *vm, s []uint64) { v.promiseRejection(s[0], s[1], s[2] != 0) })
	add("host_module_normalize", 2, 1, func(v *vm, s []uint64) { s[0] = v.moduleNormalize(s[0], s[1]) })
	add("host_module_load", 2, 1, func(v *vm, s []uint64) { s[0] = v.moduleLoad(s[0], s[1]) })
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate host functions: %w", err)
	}
	return nil
}

// hostCall runs an operation that the library called. Its result is a value
// that the guest takes over, or 0 for an exception that was thrown.
func (v *vm) hostCall(name, nameLen, argc, argv uint64) uint64 {
	op := v.in.operations[string(v.bytes(span{name, nameLen}))]
	if op == nil || v.run == nil {
		return v.throw("ENOSYS")
	}
	v.charge(guest.CallUnits)
	a := args{v: v}
	for i := range min(argc, maxArgs) {
		p, _ := v.mod.Memory().ReadUint32Le(uint32(argv + 4*i))
		a.vals[i] = uint64(p)
		a.n++
	}
	return op(v, a)
}

// byteUnits is the price of each byte that an operation reads or makes: hashing
// and conversions are more than copying.
const byteUnits = 4 * guest.ByteUnits

// charge takes units off the fuel of the run.
func (v *vm) charge(units int64) {
	if v.run != nil {
		v.run.Charge(v.mod, units)
	}
}

// throw throws a string, which the library makes a proper error of. If the run is
// over, that is why something failed, and the guest does not go on.
func (v *vm) throw(code string) uint64 {
	guest.Yield(v.ctx)
	s := v.newString(code)
	v.free(v.call("qjs_throw", s))
	v.free(s)
	return 0
}

// rethrow throws the value of an exception again.
func (v *vm) rethrow(err error) uint64 {
	je, ok := err.(*jsError)
	if !ok {
		return v.throw(err.Error())
	}
	v.free(v.call("qjs_throw", je.value))
	v.free(je.value)
	return 0
}

// moduleNormalize resolves an import of a module to an absolute path or to the
// name of a built-in one. The result is a malloc'd string, 0 for an exception.
func (v *vm) moduleNormalize(base, name uint64) uint64 {
	val, err := v.hook("resolveImport", v.newString(v.cString(base)), v.newString(v.cString(name)))
	if err != nil {
		return v.rethrow(err)
	}
	s := v.text(val)
	v.free(val)
	p, _ := v.alloc(s)
	return p
}

// moduleLoad returns the source of a module as a malloc'd string.
func (v *vm) moduleLoad(name, outLen uint64) uint64 {
	val, err := v.hook("loadModule", v.newString(path.Clean(v.cString(name))))
	if err != nil {
		return v.rethrow(err)
	}
	defer v.free(val)
	source, release := v.utf8(val)
	defer release()
	p := v.call("wasm_malloc", source.n+1)
	if p == 0 {
		panic(outOfMemory)
	}
	to := v.bytes(span{p, source.n + 1})
	to[copy(to, v.bytes(source))] = 0
	v.mod.Memory().WriteUint32Le(uint32(outLen), uint32(source.n))
	return p
}

// rejection is a promise that was rejected without a handler.
type rejection struct {
	promise, reason uint64
	object          uint64 // identity of the promise
}

// promiseRejection is told when a promise is rejected without a handler, and
// when a handler comes after all. It owns both values.
func (v *vm) promiseRejection(promise, reason uint64, handled bool) {
	id := v.call("qjs_get_value_ptr", promise)
	if !handled {
		v.rejected = append(v.rejected, rejection{promise, reason, id})
		return
	}
	for i, r := range v.rejected {
		if r.object == id {
			v.free(r.promise)
			v.free(r.reason)
			v.rejected = append(v.rejected[:i], v.rejected[i+1:]...)
			break
		}
	}
	v.free(promise)
	v.free(reason)
}
