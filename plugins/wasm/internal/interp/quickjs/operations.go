package quickjs

import (
	"errors"
	"io"
	"iter"
	"math"

	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// maxArgs is the most arguments an operation takes.
const maxArgs = 4

// operation is a host function that the library gets. It returns a value that
// the guest takes over, or throws a string: an errno name such as ENOENT, or a
// message. The guest may call it with anything.
type operation func(v *vm, a args) uint64

// operations returns all operations by name.
func operations() map[string]operation {
	return map[string]operation{
		"write":      opWrite,
		"exit":       opExit,
		"readStdin":  opReadStdin,
		"drain":      opDrain,
		"evalScript": opEvalScript,
		"evalModule": opEvalModule,
		"promise":    opPromise,
		"strip":      opStrip,
		"position":   opPosition,

		"random":     opRandom,
		"hash":       opHash,
		"hmac":       opHMAC,
		"utf8Encode": opUTF8Encode,
		"utf8Decode": opUTF8Decode,
		"utf8Length": opUTF8Length,
		"encode":     opEncode,
		"decode":     opDecode,
		"indexOf":    opIndexOf,

		"open":     opOpen,
		"close":    opClose,
		"read":     opRead,
		"writeAt":  opWriteAt,
		"truncate": opTruncate,
		"fstat":    opFstat,
		"futimes":  opFutimes,
		"stat":     opStat,
		"type":     opType,
		"readFile": opReadFile,
		"readdir":  opReaddir,
		"mkdir":    opMkdir,
		"rmdir":    opRmdir,
		"unlink":   opUnlink,
		"rename":   opRename,
		"link":     opLink,
		"symlink":  opSymlink,
		"readlink": opReadlink,
		"chmod":    opChmod,
		"utimes":   opUtimes,
	}
}

// args are the arguments of an operation; missing ones are undefined.
type args struct {
	v    *vm
	vals [maxArgs]uint64
	n    int
}

// text is at most maxText long.
func (a args) text(i int) string {
	if i >= a.n {
		return ""
	}
	return a.v.text(a.vals[i])
}

// number is never NaN, whose conversion to an integer Go leaves open.
func (a args) number(i int) float64 {
	if i >= a.n {
		return 0
	}
	f := a.v.number(a.vals[i])
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// integer is number within what an int64 holds.
func (a args) integer(i int) int64 {
	const most = 1 << 53
	return int64(min(max(a.number(i), -most), most))
}

func (a args) bool(i int) bool { return i < a.n && a.v.call("qjs_get_bool", a.vals[i]) != 0 }

// span lends the guest's memory that holds the bytes of a typed array, or of a
// string in UTF-8, until release is called.
func (a args) span(i int) (s span, release func()) {
	if i >= a.n {
		return span{}, func() {}
	}
	if a.v.call("qjs_is_string", a.vals[i]) == 0 {
		if s, ok := a.v.typedArray(a.vals[i]); ok {
			a.v.charge(byteUnits * int64(s.n))
			return s, func() {}
		}
	}
	return a.v.utf8(a.vals[i])
}

// opWrite(fd, data) writes to standard output or error.
func opWrite(v *vm, a args) uint64 {
	w := v.run.Stdout
	if a.number(0) == 2 {
		w = v.run.Stderr
	}
	s, release := a.span(1)
	defer release()
	_, _ = w.Write(v.bytes(s))
	return v.undefined()
}

// opExit(code) ends the program.
func opExit(_ *vm, a args) uint64 {
	panic(sys.NewExitError(uint32(a.integer(0)) & 0xff))
}

// opReadStdin(max) returns bytes, or undefined at the end.
func opReadStdin(v *vm, a args) uint64 {
	const most = 1 << 20
	buf := make([]byte, min(max(a.integer(0), 1), most))
	n, err := v.run.Stdin.Read(buf)
	if n == 0 && err != nil {
		if !errors.Is(err, io.EOF) {
			return v.throw("EIO")
		}
		return v.undefined()
	}
	return v.fill(int64(n), func(b []byte) (int, error) { return copy(b, buf), nil })
}

// opDrain() runs the promise jobs that are pending.
func opDrain(v *vm, _ args) uint64 {
	for {
		switch r := int32(uint32(v.call("qjs_execute_pending_job"))); {
		case r == 0:
			return v.undefined()
		case r < 0:
			return v.rethrow(v.pending())
		}
	}
}

// opEvalScript(source, file) returns the completion value.
func opEvalScript(v *vm, a args) uint64 { return v.evalArgs(a, evalScript) }

// opEvalModule(source, file) returns the promise of the module's namespace.
func opEvalModule(v *vm, a args) uint64 { return v.evalArgs(a, evalModule) }

func (v *vm) evalArgs(a args, flags uint64) uint64 {
	source, release := a.span(0)
	defer release()
	val, err := v.eval(source, a.text(1), flags)
	if err != nil {
		return v.rethrow(err)
	}
	return val
}

// opPromise(promise) returns its state, 0 pending, 1 fulfilled, 2 rejected, and
// its result or reason.
func opPromise(v *vm, a args) uint64 {
	out := v.call("qjs_new_array")
	if a.n == 0 {
		return out
	}
	state := v.call("qjs_promise_state", a.vals[0])
	v.setIndex(out, 0, v.newNumber(float64(int32(state))))
	v.setIndex(out, 1, v.call("qjs_promise_result", a.vals[0]))
	return out
}

// fill makes an array of at most n bytes that read puts there, in the guest's
// memory at once: what is read may be large and the host's memory is not
// theirs. A failure of read is thrown.
func (v *vm) fill(n int64, read func(b []byte) (int, error)) uint64 {
	return v.produce(n, read, func(s span) uint64 {
		return v.call("qjs_new_uint8_array", s.ptr, s.n)
	})
}

// produce is fill for any value that can be made of bytes.
func (v *vm) produce(n int64, read func(b []byte) (int, error), made func(span) uint64) uint64 {
	var ptr uint64
	if n >= 0 && n < guest.MemoryLimit(v.run.Program) {
		ptr = v.call("wasm_malloc", uint64(n)+1)
		v.charge(guest.TransferUnits + byteUnits*n)
	}
	if ptr == 0 {
		// The engine's own error, which programs cannot catch.
		v.call("JS_ThrowOutOfMemory", v.call("qjs_get_context_ptr"))
		return 0
	}
	defer v.call("wasm_free", ptr)
	got, err := read(v.bytes(span{ptr, uint64(n)}))
	if err != nil {
		return v.throw(errnoName(err))
	}
	return made(span{ptr, uint64(got)})
}

// partBytes is how much of the guest's memory is worked on between two looks at
// whether the run is over. It is divisible by 3, as base64 wants it.
const partBytes = 384 << 10

// parts yields b in parts of partBytes, and looks in between. b is of the guest's
// memory, and no call of the guest may come in between.
func (v *vm) parts(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > partBytes {
			if !yield(b[:partBytes]) {
				return
			}
			b = b[partBytes:]
			guest.Yield(v.ctx)
		}
		yield(b)
	}
}
