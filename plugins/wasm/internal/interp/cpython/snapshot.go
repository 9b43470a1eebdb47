package cpython

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
)

// The snapshot is an interpreter that was booted once, with what programs import
// most loaded: a run that starts from it skips some 100 ms. See lib/_caisson_runner.py for the other side.

// entry is where a run begins, the state of the image.
type entry struct {
	Command uint64 `json:"command"` // a text to run
	Start   uint64 `json:"start"`   // a function to call
}

// bytesHeader is what precedes the content of a bytes object on a 32-bit build.
const bytesHeader = 16

// takeImage unwinds the guest at the moment when the image is taken.
type takeImage struct{}

// boot starts the interpreter like a command line, lets it load the runner, and
// stops it in its shutdown when it asks for the time: then no Python frame is
// left, and nothing returns into the frames of C that are.
func (p *Interpreter) boot(ctx context.Context, b *machine.Boot) ([]byte, error) {
	if err := p.build.moveStack(b); err != nil {
		return nil, err
	}
	b.World.Walltime = func() (int64, int32) {
		if bytes.HasPrefix(b.Stdout.Bytes(), []byte("addresses ")) {
			panic(takeImage{})
		}
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	_, callErr := b.ExportedFunction("_start").Call(ctx)
	var at entry
	if _, err := fmt.Sscanf(b.Stdout.String(), "addresses %d %d\n", &at.Command, &at.Start); err != nil || callErr == nil || b.IsClosed() {
		return nil, fmt.Errorf("the boot did not get to its end: %w: %s", callErr, b.Stderr.String())
	}
	if b.Stderr.Len() > 0 {
		return nil, fmt.Errorf("the boot complains: %s", b.Stderr.String())
	}
	at.Command += bytesHeader
	return json.Marshal(at)
}

// fits reports whether a run can start from the snapshot, and returns its source if
// so: it is a tool, or a script in the program's own directory, and asks for nothing
// that is settled when the interpreter starts.
func (p *Interpreter) fits(r *guest.Run) (source []byte, ok bool) {
	argv, tool := r.Program.Argv, p.tool(r.Program.Argv)
	if p.snapshotErr != nil || len(argv) < 2 && tool == nil || r.Program.Tmp.Root == nil || r.Program.Entry == nil {
		return nil, false
	}
	for k, v := range r.Env {
		if !utf8.ValidString(k) || !utf8.ValidString(v) || strings.HasPrefix(k, "PYTHON") && !slices.Contains(lateVariables, k) {
			return nil, false
		}
	}
	if slices.ContainsFunc(argv, func(a string) bool { return !utf8.ValidString(a) }) {
		return nil, false
	}
	if tool != nil {
		return tool.program(), true
	}
	return plainSource(r.Program.Entry, argv[1])
}

// maxSource is the largest script that is handed to a snapshot.
const maxSource = 4 << 20

// plainSource returns a script that is UTF-8 and does not say that it is anything
// else: CPython reads a file and a text differently when it is not.
func plainSource(entry *os.Root, script string) (source []byte, ok bool) {
	name, ok := strings.CutPrefix(script, guest.EntryDir+"/")
	if !ok {
		return nil, false
	}
	f, err := entry.Open(name)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	source, err = io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil || len(source) > maxSource || !utf8.Valid(source) || bytes.IndexByte(source, 0) >= 0 {
		return nil, false
	}
	head := source
	for range 2 {
		if _, rest, ok := bytes.Cut(head, []byte("\n")); ok {
			head = rest
		} else {
			head = nil
		}
	}
	return source, !bytes.Contains(source[:len(source)-len(head)], []byte("coding"))
}

// lateVariables are those that the runner heeds, or that change nothing here.
var lateVariables = []string{"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8"}

// bootEnvironment is what the runner reads in place of the length of an environment
// that is the boot's.
const bootEnvironment = math.MaxUint32

// frame returns what the runner reads first: the lengths of argv, of the environment
// and of the source, in 32 bits each, and then these, as lists with NUL in between.
func (p *Interpreter) frame(r *guest.Run, source []byte) []byte {
	args := r.Program.Argv
	if p.tool(args) == nil {
		args = args[1:]
	}
	argv := strings.Join(args, "\x00")
	var env []string
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		env = append(env, k+"="+r.Env[k])
	}
	environ := strings.Join(env, "\x00")
	length := uint32(len(environ))
	if maps.Equal(r.Env, guest.DefaultEnv()) {
		environ, length = "", bootEnvironment
	}
	b := make([]byte, 0, 12+len(argv)+len(environ)+len(source))
	for _, n := range []uint32{uint32(len(argv)), length, uint32(len(source))} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return append(append(append(b, argv...), environ...), source...)
}

// runSnapshot runs a program from the snapshot.
func (p *Interpreter) runSnapshot(ctx context.Context, r *guest.Run, source []byte) (guest.Result, error) {
	inst, err := p.machine.Take(r)
	if err != nil {
		return guest.Result{}, fmt.Errorf("cpython: %w", err)
	}
	defer func() { _ = inst.Close(ctx) }()
	r.Stdin = io.MultiReader(bytes.NewReader(p.frame(r, source)), r.Stdin)
	r.Begin()
	if p.build.call != "" {
		_, err = inst.ExportedFunction(p.build.call).Call(r.Context(ctx), p.entry.Start)
	} else {
		_, err = inst.ExportedFunction(p.build.run).Call(r.Context(ctx), p.entry.Command, 0)
	}
	code, exited := guest.Exit(err)
	if err == nil { // the runner itself ran out of memory and could only return
		code, exited = 1, true
		if p.build.call != "" {
			_, _ = io.WriteString(r.Stderr, "MemoryError\n")
		}
	}
	return r.Outcome(ctx, exited, code, err), nil
}
