package clang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// maxCode bounds the code of a program, in bytes: to compile it takes some two
// seconds and 200 MB. Programs made of C++'s whole library have half a megabyte.
const maxCode = 4 << 20

// codeUnits is what compiling a byte of code costs the program in fuel: about what it
// takes at the nominal rate, and at most what a few seconds stand for.
const codeUnits = 1000

// Exit codes of a program that cannot be run, as shells give them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// codeArithmetic is what a POSIX system gives for an arithmetic trap (SIGFPE).
const codeArithmetic = 136

// runProgram runs a WebAssembly program. Whoever made it, it is taken for hostile.
func runProgram(ctx context.Context, r *guest.Run) (guest.Result, error) {
	began := time.Now()
	name := r.Program.Argv[0]
	refuse := func(code int, format string, args ...any) (guest.Result, error) {
		r.Begin()
		say(r.Stderr, "%s: %s", name, fmt.Sprintf(format, args...))
		return guest.Result{Reason: guest.ReasonExit, Code: code, WallTime: time.Since(began)}, nil
	}
	wasm, err := readFile(r, name, maxModule)
	switch {
	case errors.Is(err, errAbsent):
		return refuse(codeNotFound, "not found")
	case err != nil:
		return refuse(codeNotExecutable, "%v", err)
	case !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")):
		return refuse(codeNotExecutable, "cannot execute: not a WebAssembly program")
	case codeBytes(wasm) > maxCode:
		return refuse(codeNotExecutable, "cannot execute: more than %d bytes of code", maxCode)
	}
	m, err := guest.Load(ctx, codecache.Cache{}, wasm, meter.Options{
		Unstable: true, MaxTableElements: maxTable,
		// The compiler cannot be interrupted in the middle of a function, so one has to be
		// done in about a second.
		Limits: meter.Limits{
			ModuleBytes: 2 * maxModule, Imports: 1000, DataSegments: 10_000,
			FunctionBytes: 1 << 20, Ways: 10_000, Joins: 500_000, Operands: 100_000, AllLocals: 2_000_000,
		},
	})
	if ctx.Err() != nil {
		// Compiling was interrupted, or it took all the time there was.
		return ended(ctx, r, began), nil
	}
	if e, ok := errors.AsType[*meter.Error](err); ok {
		return refuse(codeNotExecutable, "cannot execute: %v", e)
	}
	if err != nil {
		return refuse(codeNotExecutable, "cannot execute: %v", firstLine(err))
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	memory := m.Code.ExportedMemories()["memory"]
	if m.Code.ExportedFunctions()["_start"] == nil || memory == nil {
		return refuse(codeNotExecutable, "cannot execute: it exports no _start and memory")
	}
	if limit := guest.MemoryLimit(r.Program); int64(memory.Min())*pageBytes > limit {
		res, err := refuse(guest.CodeKilled, "Killed: its stack and global variables need %d MiB of memory, the limit is %d MiB", memory.Min()*pageBytes>>20, limit>>20)
		res.Reason, res.MemoryLimited = guest.ReasonMemory, true
		return res, err
	}
	callCtx := r.Context(ctx)
	inst, err := m.Runtime.InstantiateModule(callCtx, m.Code, r.ModuleConfig(r.Program.Argv, r.Env))
	if err != nil {
		return refuse(codeNotExecutable, "cannot execute: %v", firstLine(err))
	}
	defer func() { _ = inst.Close(context.WithoutCancel(ctx)) }()
	r.Charge(inst, codeUnits*int64(codeBytes(wasm)))
	r.Begin()
	_, err = inst.ExportedFunction("_start").Call(callCtx)
	code, exited := guest.Exit(err)
	res := r.Outcome(ctx, exited || err == nil, code, err)
	if res.Reason == guest.ReasonExit && res.Err != nil {
		var text string
		res.Code, text = trap(err)
		res.Err = errors.New(text)
		say(r.Stderr, "%s", text)
	}
	res.WallTime = time.Since(began)
	return res, nil
}

const (
	pageBytes = 64 << 10
	maxTable  = 100_000
)

// ended is the outcome of a program whose time was over before it began.
func ended(ctx context.Context, r *guest.Run, began time.Time) guest.Result {
	r.Begin()
	res := guest.Result{Code: guest.CodeKilled, Reason: guest.ReasonCanceled, Err: context.Cause(ctx), WallTime: time.Since(began)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		res.Reason = guest.ReasonTimeout
	}
	return res
}

// trap names what ended a program as shells do, with the exit code of the signal that
// a POSIX system would have sent.
func trap(err error) (code int, text string) {
	reason := firstLine(err)
	switch {
	case strings.Contains(reason, "unreachable"):
		return guest.CodeAborted, "Aborted"
	case strings.Contains(reason, "integer divide by zero"), strings.Contains(reason, "integer overflow"):
		return codeArithmetic, "Floating point exception: " + reason
	case strings.Contains(reason, "out of bounds memory access"):
		return guest.CodeCrashed, "Segmentation fault: memory access out of bounds, or stack overflow"
	}
	return guest.CodeCrashed, "Segmentation fault: " + reason
}

// firstLine drops the stack of WebAssembly functions from an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(strings.TrimPrefix(line, "wasm error: "), " (recovered by wazero)")
}

// codeBytes returns the size of a module's code section. Of what is malformed it says
// 0; package meter refuses that.
func codeBytes(wasm []byte) uint64 {
	const header, sectionCode = 8, 10
	for rest := wasm[header:]; len(rest) > 1; {
		id := rest[0]
		size, n := uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return 0
		}
		if id == sectionCode {
			return size
		}
		rest = rest[1+n+int(size):]
	}
	return 0
}
