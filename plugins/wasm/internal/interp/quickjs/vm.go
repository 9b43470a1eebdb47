package quickjs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tetratelabs/wazero/api"
	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// vm is one instance and the calls into it. JavaScript values are pointers into
// the guest's memory that somebody owns: what a method returns belongs to the
// caller, arguments are borrowed unless said otherwise.
//
// A call that ends the guest (exit, deadline, trap) panics with abort, through
// wazero, up to guard: calls and host functions nest, and nothing in between
// may go on.
type vm struct {
	in      *Interpreter
	run     *guest.Run // nil while booting
	ctx     context.Context
	mod     api.Module
	funcs   map[string][]api.Function // idle handles by export
	scratch uint32                    // scratchBytes for out parameters and arguments
	undef   uint64                    // the value undefined, never to be freed

	files    map[int]esys.File
	rejected []rejection
}

type vmKey struct{}

// abort carries the error of a call out of everything nested.
type abort struct{ err error }

func (a abort) Error() string { return a.err.Error() }
func (a abort) Unwrap() error { return a.err }

// use attaches the instance.
func (v *vm) use(ctx context.Context, m api.Module) {
	v.ctx, v.mod = ctx, m
	v.funcs, v.files = map[string][]api.Function{}, map[int]esys.File{}
}

// guard runs f and returns the error that ended the guest within it, if any.
func (v *vm) guard(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case abort:
			err = p.err
		case *sys.ExitError: // from a host function that was not called by the guest
			err = p
		default:
			if e, ok := p.(error); !ok || !errors.Is(e, guest.ErrEnded) {
				panic(p)
			}
			err = guest.ErrEnded
		}
	}()
	return f()
}

// call calls an export. Handles are not re-entrant, so each is used by one call
// at a time; making one is dear, so they are kept.
func (v *vm) call(name string, args ...uint64) uint64 {
	var f api.Function
	if idle := v.funcs[name]; len(idle) > 0 {
		f, v.funcs[name] = idle[len(idle)-1], idle[:len(idle)-1]
	} else if f = v.mod.ExportedFunction(name); f == nil {
		panic(abort{fmt.Errorf("the module has no export %q", name)})
	}
	var stack [8]uint64
	copy(stack[:], args)
	if err := f.CallWithStack(v.ctx, stack[:]); err != nil {
		panic(abort{err})
	}
	v.funcs[name] = append(v.funcs[name], f)
	// The high half of a 32-bit result is not defined.
	if name == "qjs_get_float64" {
		return stack[0]
	}
	return uint64(uint32(stack[0]))
}

// span is a range of the guest's memory.
type span struct{ ptr, n uint64 }

// bytes returns the guest's memory itself, valid until the next call.
func (v *vm) bytes(s span) []byte {
	b, ok := v.mod.Memory().Read(uint32(s.ptr), uint32(s.n))
	if !ok {
		panic(abort{errors.New("out of bounds memory access")})
	}
	return b
}

// alloc copies s into the guest's memory, with a NUL behind it.
func (v *vm) alloc(s string) (ptr, n uint64) {
	n = uint64(len(s))
	ptr = v.call("wasm_malloc", n+1)
	if ptr == 0 {
		panic(outOfMemory)
	}
	b := v.bytes(span{ptr, n + 1})
	copy(b, s)
	b[n] = 0
	return ptr, n
}

// outOfMemory ends a run whose host function has no memory for its result.
var outOfMemory = abort{errors.New("out of memory")}

func (v *vm) newString(s string) uint64 {
	ptr, n := v.alloc(s)
	val := v.call("qjs_new_string", ptr, n)
	v.call("wasm_free", ptr)
	return val
}

func (v *vm) newNumber(f float64) uint64 { return v.call("qjs_new_number", math.Float64bits(f)) }
func (v *vm) undefined() uint64          { return v.call("qjs_get_undefined") }
func (v *vm) free(val uint64)            { v.call("qjs_free_value", val) }

// setProp gives val to the object.
func (v *vm) setProp(obj uint64, name string, val uint64) {
	ptr, _ := v.alloc(name)
	v.call("qjs_set_prop_string", obj, ptr, val)
	v.call("wasm_free", ptr)
	v.free(val)
}

// setIndex gives val to the array.
func (v *vm) setIndex(arr, i, val uint64) {
	v.call("qjs_set_prop_uint32", arr, i, val)
	v.free(val)
}

func (v *vm) getProp(obj uint64, name string) uint64 {
	ptr, _ := v.alloc(name)
	val := v.call("qjs_get_prop_string", obj, ptr)
	v.call("wasm_free", ptr)
	return val
}

// utf8 lends the string value of val as valid UTF-8 until release is called.
func (v *vm) utf8(val uint64) (s span, release func()) {
	ptr := v.call("qjs_get_string_len", val, uint64(v.scratch))
	if ptr == 0 {
		v.free(v.call("qjs_get_exception"))
		return span{}, func() {}
	}
	n, _ := v.mod.Memory().ReadUint32Le(v.scratch)
	v.charge(byteUnits * int64(n))
	s = span{ptr, uint64(n)}
	replaceSurrogates(v.bytes(s))
	return s, func() { v.call("qjs_free_cstring", ptr) }
}

// maxText bounds the strings that are copied into the host's memory: names,
// paths and messages. What is longer is cut, which no name survives.
const maxText = 64 << 10

func (v *vm) text(val uint64) string {
	s, release := v.utf8(val)
	defer release()
	s.n = min(s.n, maxText)
	return strings.ToValidUTF8(string(v.bytes(s)), "\ufffd")
}

// replaceSurrogates puts U+FFFD in the place of lone surrogates, which the
// engine encodes in three bytes as well.
func replaceSurrogates(b []byte) {
	for i := 0; ; i += 3 {
		at := bytes.IndexByte(b[i:], 0xed)
		if at < 0 || i+at+2 >= len(b) {
			return
		}
		i += at
		if b[i+1] >= 0xa0 {
			copy(b[i:], "\ufffd")
		}
	}
}

func (v *vm) cString(ptr uint64) string {
	mem := v.mod.Memory()
	var b []byte
	for p := uint32(ptr); ; p++ {
		c, ok := mem.ReadByte(p)
		if !ok || c == 0 || len(b) == maxText {
			return strings.ToValidUTF8(string(b), "\ufffd")
		}
		b = append(b, c)
	}
}

func (v *vm) number(val uint64) float64 {
	return math.Float64frombits(v.call("qjs_get_float64", val))
}

// typedArray finds the bytes of a typed array; ok is false for other values.
func (v *vm) typedArray(val uint64) (s span, ok bool) {
	out := uint64(v.scratch)
	buf := v.call("qjs_get_typed_array_buffer", val, out, out+4, out+8)
	defer v.free(buf)
	if v.call("qjs_is_exception", buf) != 0 {
		v.free(v.call("qjs_get_exception"))
		return span{}, false
	}
	off, _ := v.mod.Memory().ReadUint32Le(v.scratch)
	n, _ := v.mod.Memory().ReadUint32Le(v.scratch + 4)
	ptr := v.call("qjs_get_array_buffer", buf, out)
	total, _ := v.mod.Memory().ReadUint32Le(v.scratch)
	if ptr == 0 || off > total || n > total-off {
		return span{}, true
	}
	return span{ptr + uint64(off), uint64(n)}, true
}

// jsError is a JavaScript exception that reached the host; the value is owned
// by whoever has the error.
type jsError struct{ value uint64 }

func (e *jsError) Error() string { return "JavaScript exception" }

// check turns an exception value into an error and frees it.
func (v *vm) check(val uint64) (uint64, error) {
	if v.call("qjs_is_exception", val) == 0 {
		return val, nil
	}
	v.free(val)
	return 0, v.pending()
}

// Flags of qjs_eval.
const (
	evalScript = 0
	evalModule = 1
)

// eval evaluates source, which a NUL follows; a module's value is the promise of
// its namespace.
func (v *vm) eval(source span, file string, flags uint64) (uint64, error) {
	name, _ := v.alloc(file)
	val := v.call("qjs_eval", source.ptr, source.n, name, flags)
	v.call("wasm_free", name)
	return v.check(val)
}

// Parts of the scratch memory.
const (
	scratchOut   = 16 // out parameters; arguments follow
	maxApply     = 4  // arguments of apply
	scratchBytes = scratchOut + 4*maxApply
)

// apply calls a function value.
func (v *vm) apply(f uint64, args ...uint64) (uint64, error) {
	argv := v.scratch + scratchOut
	for i, a := range args[:min(len(args), maxApply)] {
		v.mod.Memory().WriteUint32Le(argv+uint32(4*i), uint32(a))
	}
	// The callee copies the arguments before it runs anything.
	return v.check(v.call("qjs_call", f, v.undef, uint64(len(args)), uint64(argv)))
}

// hookNames are the functions that lib/bootstrap.js returns.
var hookNames = [...]string{
	"start", "runMain", "uncaught", "unhandled", "ticks", "turn", "exiting", "resolveImport", "loadModule",
}

// hook calls a function of lib/bootstrap.js. The arguments are freed.
func (v *vm) hook(name string, args ...uint64) (uint64, error) {
	val, err := v.apply(v.in.image.Hooks[name], args...)
	for _, a := range args {
		v.free(a)
	}
	return val, err
}

// describe adds the text of an exception to its error, and frees it.
func (v *vm) describe(err error) error {
	je, ok := errors.AsType[*jsError](err)
	if !ok {
		return err
	}
	defer v.free(je.value)
	return errors.New(v.text(je.value))
}
