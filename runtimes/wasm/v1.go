package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// conventionV1 is ABI v1, see package abi.
type conventionV1 struct{}

func (conventionV1) unpack(data []byte) ([]byte, error) { return data, nil }

func (conventionV1) grants(s *Spec, im moduleImport) error { return s.grants(im) }

func (conventionV1) provide(context.Context, *Module, wazero.Runtime) error { return nil }

func (conventionV1) port() port { return &portV1{} }

func (conventionV1) version(v uint32) string { return fmt.Sprintf("%d.%d", v>>16, v&0xffff) }

func (conventionV1) revision() string { return "" }

func (conventionV1) check(compiled wazero.CompiledModule) error {
	functions := compiled.ExportedFunctions()
	_, start := functions[abi.ExportStart]
	if _, initialize := functions[abi.ExportInitialize]; start && !initialize {
		return fmt.Errorf("module is a command: it exports %s and not %s; build a reactor (Go: -buildmode=c-shared)", abi.ExportStart, abi.ExportInitialize)
	}
	if err := checkMemory(compiled); err != nil {
		return err
	}
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	return checkExported(
		compiled,
		exported{abi.ExportVersion, nil, []api.ValueType{i32}, false},
		exported{abi.ExportAlloc, []api.ValueType{i32}, []api.ValueType{i32}, false},
		exported{abi.ExportHandle, []api.ValueType{i32, i32, i32}, []api.ValueType{i64}, false},
		exported{abi.ExportInitialize, nil, nil, true},
	)
}

// portV1 talks to one instance.
type portV1 struct {
	alloc, handle api.Function
	// stack carries parameters and results, so that a call allocates nothing.
	stack [3]uint64
}

func (p *portV1) open(ctx context.Context, in *instance) error {
	p.alloc, p.handle = in.mod.ExportedFunction(abi.ExportAlloc), in.mod.ExportedFunction(abi.ExportHandle)
	if f := in.mod.ExportedFunction(abi.ExportInitialize); f != nil {
		if err := f.CallWithStack(ctx, nil); err != nil {
			return err
		}
	}
	if err := in.mod.ExportedFunction(abi.ExportVersion).CallWithStack(ctx, p.stack[:]); err != nil {
		return err
	}
	version := uint32(p.stack[0])
	if major := version >> 16; major != abi.Major {
		return fmt.Errorf("%w: module speaks version %d.%d of the ABI, this host speaks %d.%d: rebuild the module with the matching SDK",
			ErrRefused, major, version&0xffff, abi.Major, abi.Minor)
	}
	in.m.version.Store(version)
	return nil
}

func (p *portV1) configure(ctx context.Context, in *instance) failure {
	_, f := p.invoke(ctx, in, OpConfigure, in.m.spec.Config, nil)
	var refusal *GuestError
	if f.reason == ReasonGuest && errors.As(f.err, &refusal) &&
		refusal.Code == abi.CodeUnsupportedOp && string(bytes.TrimSpace(in.m.spec.Config)) == "{}" {
		return failure{}
	}
	return f
}

// invoke is the call protocol of the ABI.
func (p *portV1) invoke(ctx context.Context, in *instance, op uint32, input, out []byte) ([]byte, failure) {
	var ptr uint32
	if len(input) > 0 {
		p.stack[0] = uint64(len(input))
		if err := p.alloc.CallWithStack(ctx, p.stack[:]); err != nil {
			return out, failure{ReasonTrap, err}
		}
		ptr = uint32(p.stack[0])
		if ptr == 0 {
			return out, failure{ReasonMemory, fmt.Errorf("alloc refuses %d bytes", len(input))}
		}
		if !in.mem.Write(ptr, input) {
			return out, failure{ReasonBadOutput, fmt.Errorf("alloc puts %d bytes at %d, outside of the memory of %d", len(input), ptr, in.mem.Size())}
		}
	}
	p.stack = [3]uint64{uint64(op), uint64(ptr), uint64(len(input))}
	if err := p.handle.CallWithStack(ctx, p.stack[:]); err != nil {
		return out, failure{ReasonTrap, err}
	}
	ptr, n, isError := abi.Unpack(p.stack[0])
	if n == 0 && !isError {
		return out, failure{}
	}
	most := in.m.spec.Limits.OutputBytes
	if isError {
		most = abi.MaxErrorBytes
	}
	if int64(n) > most {
		return out, failure{ReasonBadOutput, fmt.Errorf("reply of %d bytes is longer than %d", n, most)}
	}
	view, ok := in.mem.Read(ptr, n)
	if !ok {
		return out, failure{ReasonBadOutput, fmt.Errorf("reply of %d bytes at %d is outside of the memory of %d", n, ptr, in.mem.Size())}
	}
	if isError {
		e, err := abi.DecodeError(view)
		if err != nil {
			return out, failure{ReasonBadOutput, fmt.Errorf("error object: %w", err)}
		}
		return out, failure{ReasonGuest, e}
	}
	return append(out, view...), failure{}
}
