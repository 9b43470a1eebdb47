package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Run is the state of one run that every interpreter needs. It is made by New
// and must be closed. One goroutine uses it.
type Run struct {
	Program Program
	// Env is the environment with the defaults filled in.
	Env map[string]string
	// Mounts are the guest's directories, longest path first.
	Mounts []MountPoint
	// Stdin, Stdout and Stderr are safe to hand to the guest: the input ends
	// with the run, the outputs never fail.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// KeepStdio refuses to close the three standard descriptors, for guests
	// that cannot duplicate them and close what they take for a duplicate.
	KeepStdio bool

	in        *stdin
	mem       *region.Region // of the instance
	own       *region.Region // mem if it is nobody else's
	start     time.Time      // of the guest's monotonic clock
	started   time.Time
	errno     uint16 // noted by rootfs during a WASI call
	refused   uint16 // why the WASI call under way is not carried out
	done      uint32 // where a WASI call writes how much it has copied
	account   *meter.Account
	counter   api.MutableGlobal // of the instance; nil until it is known
	outOfFuel bool
	turn      time.Time       // when it last let others run
	ctx       context.Context // of the whole run
	seated    bool            // it has its place
	benched   bool            // it has a seat on the bench
	benchedAt time.Time
	counted   int64                   // fuel that beside has seen
	controls  map[uint32]*controlFile // by descriptor
	opened    *controlFile            // during path_open
	opening   uint32                  // where path_open writes the descriptor
	answered  bool                    // the WASI call under way was carried out here
	outputErr error
}

// MountPoint is a directory in the guest's tree.
type MountPoint struct {
	Path string
	FS   *rootfs.FS
}

type stateKey struct{}

// stateOf returns the run that ctx belongs to, nil if to none.
func stateOf(ctx context.Context) *Run {
	r, _ := ctx.Value(stateKey{}).(*Run)
	return r
}

// Context returns ctx for calls into the run's instance. If no memory was attached,
// the instance that is made with it gets its own.
func (r *Run) Context(ctx context.Context) context.Context {
	if r.mem != nil {
		return runContext{ctx, r}
	}
	mem, err := region.New(MemoryLimit(r.Program))
	if err != nil {
		// A guest that is over before it begins.
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return runContext{ended, r}
	}
	r.mem, r.own = mem, mem
	return experimental.WithMemoryAllocator(runContext{ctx, r}, mem)
}

// ModuleConfig returns the configuration of an instance that is made for this run
// alone, with the directories that the run has.
func (r *Run) ModuleConfig(argv []string, env map[string]string, library ...LibraryMount) wazero.ModuleConfig {
	var dirs []string
	for _, m := range r.Mounts {
		dirs = append(dirs, m.Path)
	}
	w := NewWorld(newLayout(dirs, library))
	w.Bind(r)
	return w.ModuleConfig(argv, env)
}

// runContext carries a run. Every host function asks for it, so that it is found at
// once.
type runContext struct {
	context.Context
	run *Run
}

func (c runContext) Value(key any) any {
	if key == (stateKey{}) {
		return c.run
	}
	return c.Context.Value(key)
}

// Attach tells the run which memory its instance has, and limits that.
func (r *Run) Attach(mem *region.Region) {
	r.mem = mem
	mem.Bind(MemoryLimit(r.Program))
}

// New prepares a run; ctx is the context of the whole run. minMemory is what
// the interpreter needs to start at all. Errors are about the Program.
func New(ctx context.Context, p Program, minMemory int64) (*Run, error) {
	if p.FuelLimit < 0 {
		return nil, errors.New("program.FuelLimit: must not be negative")
	}
	r := &Run{Program: p, ctx: ctx, seated: p.Place != nil, start: time.Now(), account: meter.NewAccount(Slice, Slice, p.FuelLimit)}
	limit := MemoryLimit(p)
	if limit < minMemory {
		return nil, fmt.Errorf("program.MemoryBytes: the interpreter needs at least %d, the limit is %d", minMemory, limit)
	}
	for k, v := range p.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return nil, fmt.Errorf("program.Env: %q is no name and value without NUL", k)
		}
	}
	for i, a := range p.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return nil, fmt.Errorf("program.Argv[%d]: contains NUL", i)
		}
	}
	if p.Data.Root == nil {
		return nil, errors.New("program.Data: no root")
	}
	r.Env = DefaultEnv()
	maps.Copy(r.Env, p.Env)
	opt := rootfs.Options{OnErrno: func(n uint16) { r.errno = n }, Done: ctx.Done()}
	r.Mounts = append(r.Mounts, MountPoint{DataDir, rootfs.New(p.Data.Root, p.Data.Quota, opt)})
	if p.Tmp.Root != nil {
		r.Mounts = append(r.Mounts, MountPoint{TmpDir, rootfs.New(p.Tmp.Root, p.Tmp.Quota, opt)})
	}
	if p.Entry != nil {
		opt.ReadOnly = true
		r.Mounts = append(r.Mounts, MountPoint{EntryDir, rootfs.New(p.Entry, nil, opt)})
	}
	r.in = newStdin(r, p.Stdin)
	r.Stdin = r.in
	r.Stdout = &output{dst: p.Stdout, err: &r.outputErr}
	r.Stderr = &output{dst: p.Stderr, err: &r.outputErr}
	return r, nil
}

// DefaultEnv returns the environment of a program that asks for none.
func DefaultEnv() map[string]string {
	return map[string]string{
		"HOME": DataDir, "PWD": DataDir, "TMPDIR": TmpDir, "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin",
	}
}

// MemoryLimit returns the memory limit of p in bytes, whole pages.
func MemoryLimit(p Program) int64 {
	n := p.MemoryBytes
	if n <= 0 {
		n = DefaultMemoryBytes
	}
	return min(n, 4<<30) / region.PageBytes * region.PageBytes
}

// Close releases what the run holds. The instance must be closed before.
func (r *Run) Close() {
	r.Rise()
	r.in.stop()
	if r.own != nil {
		r.own.Unmap()
	}
}

// nanotime is the guest's monotonic clock.
func (r *Run) nanotime() int64 { return int64(time.Since(r.start)) + 1 }

// Lookup finds the mount of an absolute guest path and the path below it.
func (r *Run) Lookup(p string) (*rootfs.FS, string, bool) {
	p = path.Clean("/" + p)
	for _, m := range r.Mounts {
		if p == m.Path {
			return m.FS, ".", true
		}
		if rest, ok := strings.CutPrefix(p, m.Path+"/"); ok {
			return m.FS, rest, true
		}
	}
	return nil, "", false
}

// Begin marks the start: the program's code runs from here on.
func (r *Run) Begin() {
	if r.Program.Started != nil {
		r.Program.Started()
	}
	r.started = time.Now()
}

// Outcome turns the way in which the guest's call ended into a Result. exited
// with code is an orderly exit; callErr is the error of the call otherwise.
func (r *Run) Outcome(ctx context.Context, exited bool, code uint32, callErr error) Result {
	res := Result{
		Reason:          ReasonExit,
		MemoryLimited:   r.mem.Refused(),
		PeakMemoryBytes: r.mem.Peak(),
		WallTime:        time.Since(r.started),
		Fuel:            r.used(),
		OutputErr:       r.outputErr,
	}
	switch {
	case exited:
		res.Code = int(code & 0xff)
	case r.outOfFuel:
		res.Code, res.Reason = CodeKilled, ReasonCPU
		res.Err = fmt.Errorf("the limit of %d units of fuel was used up", r.Program.FuelLimit)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.Code, res.Reason, res.Err = CodeKilled, ReasonTimeout, context.Cause(ctx)
	case ctx.Err() != nil:
		res.Code, res.Reason, res.Err = CodeKilled, ReasonCanceled, context.Cause(ctx)
	case r.mem.Refused():
		res.Code, res.Reason = CodeKilled, ReasonMemory
		res.Err = fmt.Errorf("the memory limit of %d bytes was reached", r.mem.Limit())
	default:
		res.Code, res.Err = crash(callErr)
	}
	return res
}

// crash names a trap. wazero's text carries a stack of wasm functions, which
// helps nobody outside.
func crash(err error) (int, error) {
	if err == nil {
		return CodeAborted, errors.New("the interpreter gave up")
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.TrimPrefix(line, "wasm error: ")
	code := CodeCrashed
	if strings.HasPrefix(line, "unreachable") {
		code = CodeAborted
	}
	return code, fmt.Errorf("the interpreter crashed: %s", strings.TrimSuffix(line, " (recovered by wazero)"))
}

// Exit returns the exit code in err when the guest ended by itself.
func Exit(err error) (code uint32, ok bool) {
	ee, ok := errors.AsType[*sys.ExitError](err)
	if !ok {
		return 0, false
	}
	return ee.ExitCode(), true
}
