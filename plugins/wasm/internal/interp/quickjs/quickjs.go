// Package quickjs runs JavaScript and TypeScript programs in the WebAssembly
// build of QuickJS-NG, with a library (lib/*.js) that gives them the world of
// node: console, process, timers, modules, fs, Buffer and so on.
//
// The engine boots once, with the library loaded; its linear memory is kept and
// each run starts from a private copy of it in a new instance. The build makes
// that sound: all its state is in the linear memory, but for the stack pointer,
// which it exports.
//
// TypeScript is stripped of its types, not checked. There is no network, no
// processes and no threads; what cannot work fails with an error that says so.
package quickjs

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

//go:embed lib/*.js
var library embed.FS

// Sizes of the guest's C stack. QuickJS checks it by itself and throws a
// RangeError; the build's own stack of 1 MiB ends recursions that node allows.
// It must end before wazero's native stack does, which takes some twenty times
// as much for the same calls: at 4 MiB programs crash instead.
const (
	stackBytes  = 2816 << 10
	stackMargin = 256 << 10
)

// heapMargin is the part of a run's memory that QuickJS's own limit leaves to
// the host's calls and to what the allocator cannot use. Running into the
// memory's end itself would leave nothing to make an error of.
const heapMargin = 1 << 20

// Interpreter is a compiled and booted QuickJS. It is safe for concurrent use.
type Interpreter struct {
	module     *codecache.Module
	machine    *machine.Machine
	typescript *typescript.Pool // nil without TypeScript
	operations map[string]operation
	image      image
}

// image is what is to be known of the memory of the booted engine.
type image struct {
	Heap      uint32            `json:"heap"`      // bytes that QuickJS has allocated
	Hooks     map[string]uint64 `json:"hooks"`     // the functions that lib/bootstrap.js returns
	Undefined uint64            `json:"undefined"` // the value
	Scratch   uint32            `json:"scratch"`   // see vm
}

const exportStackPointer = "__stack_pointer"

// New compiles and boots the interpreter, or takes code and image from the cache.
// transform is the command of a typescript.Pool; empty means no TypeScript.
func New(ctx context.Context, wasm []byte, host machine.Host, transform []string) (*Interpreter, error) {
	m, err := guest.Load(ctx, host.Cache, wasm, meter.Options{DropData: true}, instantiateHost)
	if err != nil {
		return nil, fmt.Errorf("quickjs: %w", err)
	}
	q := &Interpreter{module: m, operations: operations()}
	q.machine, err = machine.New(ctx, machine.Config{
		Host: host, Module: m, Argv: []string{"node"},
		Boot: q.boot, Globals: []string{exportStackPointer}, Identity: q.identity(),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("quickjs: boot: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	if err := json.Unmarshal(q.machine.State(), &q.image); err != nil {
		return nil, errors.Join(fmt.Errorf("quickjs: %w", err), q.Close(context.WithoutCancel(ctx)))
	}
	if len(transform) > 0 {
		q.typescript = typescript.NewPool(transform)
	}
	return q, nil
}

// identity is what the image depends on besides the module: the library, what it may
// call, and how it is started.
func (q *Interpreter) identity() []byte {
	h := sha256.New()
	names, _ := fs.Glob(library, "lib/*.js") // a well-formed pattern
	for _, name := range names {
		b, _ := library.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	fmt.Fprintln(h, slices.Sorted(maps.Keys(q.operations)), hookNames, stackBytes, stackMargin, scratchBytes)
	return h.Sum(nil)
}

// Machine is what makes the instances.
func (q *Interpreter) Machine() *machine.Machine { return q.machine }

// Close releases the compiled code and the compiler. No run may be in progress.
func (q *Interpreter) Close(ctx context.Context) error {
	if q.typescript != nil {
		q.typescript.Close()
	}
	return errors.Join(q.machine.Close(ctx), q.module.Close(ctx))
}

// CacheErr says why code or image were not kept on disk; nil if they were.
func (q *Interpreter) CacheErr() error { return errors.Join(q.module.CacheErr, q.machine.CacheErr()) }

// MinMemoryBytes is the least memory limit a run may have.
func (q *Interpreter) MinMemoryBytes() int64 { return q.machine.ImageBytes() + 2*heapMargin }

// boot starts the engine and loads the library.
func (q *Interpreter) boot(ctx context.Context, b *machine.Boot) (state []byte, err error) {
	v := &vm{in: q}
	v.use(context.WithValue(ctx, vmKey{}, v), b.Instance)
	sp, ok := b.ExportedGlobal(exportStackPointer).(api.MutableGlobal)
	if !ok {
		return nil, errors.New("the module does not export its stack pointer")
	}
	err = v.guard(func() error {
		v.call("_initialize")
		stack := v.call("wasm_malloc", stackBytes)
		if stack == 0 {
			return errors.New("no memory for the stack")
		}
		sp.Set((stack + stackBytes) &^ 15)
		if v.call("qjs_init") != 0 {
			return errors.New("qjs_init failed")
		}
		v.call("qjs_set_max_stack_size", stackBytes-stackMargin)
		v.call("qjs_set_module_loader", 1)
		v.call("qjs_set_promise_rejection_handler", 1)
		v.scratch = uint32(v.call("wasm_malloc", scratchBytes))
		v.undef = v.undefined()
		hooks, err := v.loadLibrary()
		if err != nil {
			return err
		}
		v.call("qjs_run_gc")
		state, err = json.Marshal(image{uint32(v.call("qjs_get_allocated_size")), hooks, v.undef, v.scratch})
		return err
	})
	return state, err
}

// loadLibrary evaluates every file of lib as a function of its own scope and
// hands them to bootstrap.js, whose functions it returns.
func (v *vm) loadLibrary() (map[string]uint64, error) {
	names, err := fs.Glob(library, "lib/*.js")
	if err != nil {
		return nil, err
	}
	factories := v.call("qjs_new_object")
	var bootstrap uint64
	for _, file := range names {
		src, err := library.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "lib/"), ".js")
		params := "exports, require, module, host"
		if name == "bootstrap" {
			params = "factories, host"
		}
		// The name marks frames that stack traces leave out.
		code, n := v.alloc("(function (" + params + ") {" + string(src) + "\n})")
		f, err := v.eval(span{code, n}, "node:internal/"+name, evalScript)
		clear(v.bytes(span{code, n})) // or it would be copied for every run
		v.call("wasm_free", code)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, v.describe(err))
		}
		if name == "bootstrap" {
			bootstrap = f
			continue
		}
		v.setProp(factories, name, f)
	}
	host := v.call("qjs_new_object")
	// In order, so that every process boots to the same image.
	for _, name := range slices.Sorted(maps.Keys(v.in.operations)) {
		p, n := v.alloc(name)
		f := v.call("qjs_new_host_function", p, n, 0)
		v.call("wasm_free", p)
		v.setProp(host, name, f)
	}
	if bootstrap == 0 {
		return nil, errors.New("lib/bootstrap.js is missing")
	}
	made, err := v.apply(bootstrap, factories, host)
	if err != nil {
		return nil, fmt.Errorf("lib/bootstrap.js: %w", v.describe(err))
	}
	hooks := map[string]uint64{}
	for _, name := range hookNames {
		hooks[name] = v.getProp(made, name)
	}
	return hooks, nil
}

// take returns an instance for a run. The caller closes it.
func (q *Interpreter) take(ctx context.Context, r *guest.Run) (*vm, error) {
	inst, err := q.machine.Take(r)
	if err != nil {
		return nil, fmt.Errorf("quickjs: %w", err)
	}
	v := &vm{in: q, run: r, scratch: q.image.Scratch, undef: q.image.Undefined}
	v.use(context.WithValue(r.Context(ctx), vmKey{}, v), inst)
	return v, nil
}

// Run runs one program. Argv is like node's command line: an entry file, or -e
// and source, and the program's arguments. An error means that nothing ran.
func (q *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	v, err := q.take(ctx, r)
	if err != nil {
		return guest.Result{}, err
	}
	defer v.close()
	r.Begin()
	var code int
	err = v.guard(func() error {
		v.call("qjs_set_memory_limit", q.heapLimit(guest.MemoryLimit(r.Program)))
		code = v.program()
		return nil
	})
	if c, exited := guest.Exit(err); exited {
		return r.Outcome(ctx, true, c, nil), nil
	}
	return r.Outcome(ctx, err == nil, uint32(code), err), nil
}

// heapLimit is what QuickJS may allocate when the memory is limited to n bytes.
func (q *Interpreter) heapLimit(n int64) uint64 {
	return uint64(n - (q.machine.ImageBytes() - int64(q.image.Heap)) - max(heapMargin, n/32))
}
