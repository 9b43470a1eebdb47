package ruby

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the runner
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

//go:embed lib/runner.rb
var runner string

// exportStackPointer is the name given to what the build does not export. Its two
// other globals are zero whenever no stack is being unwound.
const exportStackPointer = "caisson_stack_pointer"

// startBytes is what the interpreter allocates until a program starts.
const startBytes = 8 << 20

// maxParked is how many instances wait at most: each has some 40 MB.
const maxParked = 1

// Interpreter is a compiled and booted Ruby. It is safe for concurrent use.
type Interpreter struct {
	module  *codecache.Module
	machine *machine.Machine
	start   start
}

// start is how a run is started, the state of the image.
type start struct {
	Runner uint32 `json:"runner"` // handle of the object
	Method uint32 `json:"method"` // id of the name of its method
}

// New compiles and boots the interpreter, or takes code and image from the cache.
// Compiling takes some ten seconds.
func New(ctx context.Context, wasm []byte, host machine.Host) (*Interpreter, error) {
	m, err := guest.Load(ctx, host.Cache, wasm, meter.Options{
		DropData: true,
		Exports:  []meter.Export{{Name: exportStackPointer, Kind: meter.Global, Index: 0}},
	})
	if err != nil {
		return nil, fmt.Errorf("ruby: %w", err)
	}
	i := &Interpreter{module: m}
	if err := instantiateHost(ctx, m); err != nil {
		return nil, errors.Join(fmt.Errorf("ruby: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	host.Parked = min(host.Parked, maxParked)
	identity := sha256.Sum256([]byte(runner))
	i.machine, err = machine.New(ctx, machine.Config{
		Host: host, Module: m, Argv: []string{"ruby"}, Env: bootEnv,
		Boot: i.boot, Globals: []string{exportStackPointer},
		Identity: fmt.Append(identity[:], bootArgs),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ruby: boot: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	if err := json.Unmarshal(i.machine.State(), &i.start); err != nil {
		return nil, errors.Join(fmt.Errorf("ruby: %w", err), i.Close(context.WithoutCancel(ctx)))
	}
	return i, nil
}

// Machine is what makes the instances.
func (i *Interpreter) Machine() *machine.Machine { return i.machine }

// Close releases the compiled code. No run may be in progress.
func (i *Interpreter) Close(ctx context.Context) error {
	return errors.Join(i.machine.Close(ctx), i.module.Close(ctx))
}

// CacheErr says why code or image were not kept on disk; nil if they were.
func (i *Interpreter) CacheErr() error { return errors.Join(i.module.CacheErr, i.machine.CacheErr()) }

// MinMemoryBytes is the least memory limit a run may have.
func (i *Interpreter) MinMemoryBytes() int64 { return i.machine.ImageBytes() + startBytes }

// bootArgs is the command line of the boot. The marked program is never run.
// syntax_suggest needs threads.
var bootArgs = []string{"ruby", "-EUTF-8", "--disable=syntax_suggest", "-e_=0"}

var bootEnv = map[string]string{"HOME": guest.DataDir, "LANG": "C.UTF-8"}

// runnerName is what keeps frames of the runner recognisable.
const runnerName = "<internal:caisson>"

// boot initialises Ruby and evaluates the runner.
func (i *Interpreter) boot(ctx context.Context, b *machine.Boot) ([]byte, error) {
	v := &vm{ctx, b.Instance}
	if err := v.initialize(bootArgs); err != nil {
		return nil, fmt.Errorf("%w: %s", err, b.Stderr.String())
	}
	object, state, err := v.eval("eval(" + quote(runner) + ", TOPLEVEL_BINDING.dup, " + quote(runnerName) + ", 1)")
	if err != nil || state != 0 || b.Stderr.Len() > 0 {
		return nil, fmt.Errorf("the runner ends in state %d: %w: %s", state, err, b.Stderr.String())
	}
	method, err := v.intern("call")
	if err != nil {
		return nil, err
	}
	// What the boot left of its frames would be copied for every run.
	stack, ok := b.Memory().Read(0, uint32(b.ExportedGlobal(exportStackPointer).Get()))
	if !ok {
		return nil, errors.New("the stack is not where it should be")
	}
	clear(stack)
	return json.Marshal(start{object, method})
}

// Run runs one program; r.Program.Argv is ruby's command line. An error means that
// nothing ran.
func (i *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	inst, err := i.machine.Take(r)
	if err != nil {
		return guest.Result{}, fmt.Errorf("ruby: %w", err)
	}
	defer func() { _ = inst.Close(ctx) }()
	r.Stdin = io.MultiReader(bytes.NewReader(job(r)), r.Stdin)
	r.Begin()
	v := &vm{r.Context(ctx), inst}
	err = v.send(i.start.Runner, i.start.Method)
	if err == nil { // the runner itself could not go on, for lack of memory
		return r.Outcome(ctx, true, 1, nil), nil
	}
	code, exited := guest.Exit(err)
	return r.Outcome(ctx, exited, code, err), nil
}

// job is what the runner reads first: a length and so many bytes, words that end in
// NUL: the number of arguments, these, and the names and values of the environment.
func job(r *guest.Run) []byte {
	argv := r.Program.Argv[1:]
	words := append([]string{strconv.Itoa(len(argv))}, argv...)
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		words = append(words, name, r.Env[name])
	}
	text := strings.Join(words, "\x00")
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// quote returns a Ruby literal for s.
func quote(s string) string {
	return fmt.Sprintf(`["%x"].pack("H*").force_encoding("UTF-8")`, s)
}
