package cpython

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// snapshot is an interpreter that was booted once, with what programs import
// most loaded: a run that starts from it skips some 100 ms. See
// lib/_caisson_runner.py for the other side.
type snapshot struct {
	image        *guest.Image
	stackPointer uint64
	command      uint64 // address of the text that starts a run
}

// bytesHeader is what precedes the content of a bytes object on a 32-bit build.
const bytesHeader = 16

// bootCommand loads the runner; the library's directory has been taken off the
// path by then.
const bootCommand = `import sys; sys.path.insert(0, "` + libraryDir + `"); import _caisson_runner; _caisson_runner.boot()`

// takeImage unwinds the guest at the moment when the image is taken.
type takeImage struct{}

// boot starts the interpreter like a command line, lets it load the runner, and
// stops it in its shutdown when it asks for the time: then no Python frame is
// left, and nothing returns into the frames of C that are.
func (p *Interpreter) boot(ctx context.Context) (_ *snapshot, err error) {
	dirs, remove, err := bootDirs()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var stdout, stderr bytes.Buffer
	r, err := guest.New(ctx, guest.Program{
		Argv: []string{"python3", "-c", bootCommand},
		Data: guest.Mount{Root: dirs[0]}, Tmp: guest.Mount{Root: dirs[1]}, Entry: dirs[2],
		Stdout: &stdout, Stderr: &stderr,
	}, p.minMemory)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cfg := p.config(r, r.Program.Argv).WithWalltime(func() (int64, int32) {
		if bytes.HasPrefix(stdout.Bytes(), []byte("address ")) {
			panic(takeImage{})
		}
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}, sys.ClockResolution(1000))
	callCtx := r.Context(ctx)
	inst, err := p.module.Runtime.InstantiateModule(callCtx, p.module.Code, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, inst.Close(context.WithoutCancel(ctx))) }()
	fresh := make([]byte, inst.Memory().Size())
	if err := p.prepare(inst); err != nil {
		return nil, err
	}
	_, callErr := inst.ExportedFunction("_start").Call(callCtx)
	s := &snapshot{}
	if _, err := fmt.Sscanf(stdout.String(), "address %d\n", &s.command); err != nil || callErr == nil || inst.IsClosed() {
		return nil, fmt.Errorf("the boot did not get to its end: %w: %s", callErr, stderr.String())
	}
	if stderr.Len() > 0 {
		return nil, fmt.Errorf("the boot complains: %s", stderr.String())
	}
	s.command += bytesHeader
	s.stackPointer = inst.ExportedGlobal(exportStackPointer).Get()
	booted, _ := inst.Memory().Read(0, inst.Memory().Size())
	s.image = guest.NewImage(fresh, booted)
	return s, nil
}

// bootDirs makes the directories that the boot sees, empty and for itself.
func bootDirs() (roots [3]*os.Root, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "caisson-boot-")
	if err != nil {
		return roots, nil, err
	}
	remove = func() error {
		for _, r := range roots {
			if r != nil {
				_ = r.Close()
			}
		}
		return os.RemoveAll(dir)
	}
	for i := range roots {
		sub := fmt.Sprint(dir, "/", i)
		if err = os.Mkdir(sub, 0o700); err == nil {
			roots[i], err = os.OpenRoot(sub)
		}
		if err != nil {
			return roots, nil, errors.Join(err, remove())
		}
	}
	return roots, remove, nil
}

// fits reports whether a run can start from the snapshot: it is a script in the
// program's own directory, and asks for nothing that is settled when the
// interpreter starts.
func (s *snapshot) fits(r *guest.Run) bool {
	p := r.Program
	if s == nil || len(p.Argv) < 2 || p.Tmp.Root == nil || p.Entry == nil || !plainSource(p.Entry, p.Argv[1]) {
		return false
	}
	for k, v := range r.Env {
		if !utf8.ValidString(k) || !utf8.ValidString(v) || strings.HasPrefix(k, "PYTHON") && !slices.Contains(lateVariables, k) {
			return false
		}
	}
	return !slices.ContainsFunc(p.Argv, func(a string) bool { return !utf8.ValidString(a) })
}

// plainSource reports whether a script is UTF-8 and does not say that it is
// anything else: CPython reads a file and a text differently when it is not.
func plainSource(entry *os.Root, script string) bool {
	name, ok := strings.CutPrefix(script, guest.EntryDir+"/")
	if !ok {
		return false
	}
	source, err := entry.ReadFile(name)
	if err != nil || !utf8.Valid(source) || bytes.IndexByte(source, 0) >= 0 {
		return false
	}
	head := source
	for range 2 {
		if _, rest, ok := bytes.Cut(head, []byte("\n")); ok {
			head = rest
		} else {
			head = nil
		}
	}
	return !bytes.Contains(source[:len(source)-len(head)], []byte("coding"))
}

// lateVariables are those that the runner heeds, or that change nothing here.
var lateVariables = []string{"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8"}

// run runs a program from the snapshot.
func (p *Interpreter) runSnapshot(ctx context.Context, r *guest.Run) (guest.Result, error) {
	job, err := json.Marshal(struct {
		Argv []string          `json:"argv"`
		Env  map[string]string `json:"env"`
	}{r.Program.Argv[1:], r.Env})
	if err != nil {
		return guest.Result{}, fmt.Errorf("cpython: %w", err)
	}
	frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(job))), job...)
	callCtx := r.Context(ctx)
	cfg := p.config(r, []string{"python3"}).WithStdin(io.MultiReader(bytes.NewReader(frame), r.Stdin))
	inst, err := p.module.Runtime.InstantiateModule(callCtx, p.module.Code, cfg)
	if err != nil {
		return guest.Result{}, fmt.Errorf("cpython: instantiate: %w", err)
	}
	defer func() { _ = inst.Close(context.WithoutCancel(ctx)) }()
	if !p.snapshot.image.Restore(inst.Memory()) {
		return guest.Result{}, errors.New("cpython: the memory limit is below the interpreter's own needs")
	}
	inst.ExportedGlobal(exportStackPointer).(api.MutableGlobal).Set(p.snapshot.stackPointer)
	r.Begin()
	_, err = inst.ExportedFunction(exportRun).Call(callCtx, p.snapshot.command, 0)
	code, exited := guest.Exit(err)
	if err == nil { // the runner itself ran out of memory and could only return
		code, exited = 1, true
	}
	return r.Outcome(ctx, exited, code, err), nil
}
