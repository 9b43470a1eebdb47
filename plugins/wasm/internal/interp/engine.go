package interp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/clang"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/php"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/quickjs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/ruby"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/sqlite"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// interpreter is a compiled language implementation. A later one may start its
// runs from a boot snapshot or meter them; the engine does not see it.
type interpreter interface {
	// MinMemoryBytes is the least memory limit of a run.
	MinMemoryBytes() int64
	// Run runs one program in a new instance. An error means that nothing
	// ran, and that Begin was not called.
	Run(ctx context.Context, r *guest.Run) (guest.Result, error)
	// CacheErr says why compiled code could not be kept on disk.
	CacheErr() error
	Close(ctx context.Context) error
}

// command is a name that Program.Argv[0] may have.
type command struct {
	name     string // canonical
	aliases  []string
	language string
	pack     string
}

// commands is every way to start a program.
var commands = []command{
	{"python3", []string{"python", "python3.11"}, "py", packs.CPython},
	{"node", []string{"nodejs", "qjs"}, "js", packs.QuickJS},
	{quickjs.TypeScript, nil, "ts", packs.QuickJS},
	{"php", []string{"php8.2"}, "php", packs.PHP},
	{"ruby", []string{"ruby3.4"}, "rb", packs.Ruby},
	{sqlite.Command, nil, "sql", packs.CPython},
	{clang.CommandC, nil, "c", packs.Clang},
	{clang.CommandCPP, nil, "cpp", packs.Clang},
	{"bash", []string{"sh"}, "bash", shellPack},
}

// build makes the interpreter of a pack.
var build = map[string]func(ctx context.Context, wasm []byte, host machine.Host, cfg Config) (interpreter, error){
	packs.CPython: newCPython,
	packs.QuickJS: func(ctx context.Context, wasm []byte, host machine.Host, cfg Config) (interpreter, error) {
		return quickjs.New(ctx, wasm, host, cfg.TypeScript)
	},
	packs.PHP: func(ctx context.Context, wasm []byte, host machine.Host, _ Config) (interpreter, error) {
		return php.New(ctx, wasm, host)
	},
	packs.Ruby: func(ctx context.Context, wasm []byte, host machine.Host, _ Config) (interpreter, error) {
		return ruby.New(ctx, wasm, host)
	},
	packs.Clang: func(_ context.Context, _ []byte, host machine.Host, cfg Config) (interpreter, error) {
		return clang.New(clang.Config{
			Read:  func(file string) ([]byte, error) { return cfg.Packs.ReadPart(packs.Clang, file) },
			Cache: host.Cache,
		}), nil
	},
}

// Engine compiles interpreters, once each, and runs programs in them. It is
// safe for concurrent use.
type Engine struct {
	cfg      Config
	host     machine.Host
	compiler *compiler // nil if interpreters are compiled here
	slots    *semaphore.Weighted
	bench    *guest.Bench
	calling  *calling

	loads map[string]*load // by pack; fixed after New

	// life ends when Close begins; builds are the interpreters being built.
	life   context.Context
	end    context.CancelCauseFunc
	builds sync.WaitGroup

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup
}

// DefaultMaxRunning is how many programs run at once unless Config.MaxRunning says
// otherwise: as many as a host has under way by default. With fewer, what one tenant
// may have under way there would fill this engine, and the others' programs would wait
// here in order of arrival, out of reach of the host's fairness.
func DefaultMaxRunning() int { return 4 * runtime.GOMAXPROCS(0) }

// New returns an engine. It compiles nothing yet; see Warm.
func New(cfg Config) (*Engine, error) {
	if cfg.Packs == nil {
		return nil, errors.New("interp: Config.Packs is nil")
	}
	if cfg.MaxRunning < 0 || cfg.MaxCalling < 0 || cfg.CallingBytes < 0 {
		return nil, errors.New("interp: Config.MaxRunning, MaxCalling and CallingBytes must not be negative")
	}
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = DefaultMaxRunning()
	}
	e := &Engine{cfg: cfg, compiler: newCompiler(cfg), slots: semaphore.NewWeighted(int64(cfg.MaxRunning)), bench: guest.NewBench(max(1, runtime.GOMAXPROCS(0)/2)), calling: newCalling(cfg), loads: map[string]*load{}}
	parked := cfg.Parked
	if parked == 0 {
		parked = runtime.GOMAXPROCS(0)
	}
	e.host = machine.Host{
		Regions: region.NewPool(cfg.MaxRunning), Cache: codecache.Cache{Dir: cfg.CacheDir}, Parked: max(parked, 0), Idle: cfg.Idle,
	}
	e.life, e.end = context.WithCancelCause(context.Background())
	for pack := range build {
		e.loads[pack] = newLoad()
	}
	e.loads[shellPack] = newLoad()
	return e, nil
}

// Languages returns every language the engine knows, those included whose pack
// is missing.
func (e *Engine) Languages() []Language {
	var out []Language
	for _, c := range commands {
		l := Language{ID: c.language, Interpreter: c.name, Pack: c.pack}
		for _, p := range e.cfg.Packs.Packs() {
			if p.Name == c.pack {
				l.Version, l.Licence = p.Version, p.Licence
			}
		}
		if c.pack == shellPack {
			l.Version, l.Licence, l.Missing = shellVersion, shellLicence, e.shellMissing()
		} else if err := e.cfg.Packs.Check(c.pack); err != nil {
			l.Missing = err.Error()
		} else if c.name == quickjs.TypeScript && len(e.cfg.TypeScript) == 0 {
			l.Missing = "this process has no TypeScript compiler"
		}
		if c.name == sqlite.Command {
			l.Version, l.Licence = "SQLite in "+l.Version, sqlite.Licence+" AND "+l.Licence
		}
		l.OnDemand = c.pack == packs.Clang
		out = append(out, l)
	}
	return out
}

// Warm compiles the interpreters of the named languages; if none is named, those of
// the core packs that are there. It returns all failures, after trying each.
func (e *Engine) Warm(ctx context.Context, languages ...string) error {
	var errs []error
	done := map[string]bool{}
	for _, c := range commands {
		if done[c.pack] || len(languages) > 0 && !slices.Contains(languages, c.language) {
			continue
		}
		if len(languages) == 0 && !e.core(c.pack) {
			continue
		}
		done[c.pack] = true
		in, err := e.interpreter(ctx, c.pack)
		if w, ok := in.(warmer); ok {
			err = w.Warm(ctx)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// core reports whether a pack is a core pack and there.
func (e *Engine) core(pack string) bool {
	if pack == shellPack {
		return e.shellMissing() == ""
	}
	return e.cfg.Packs.Check(pack) == nil && slices.ContainsFunc(e.cfg.Packs.Packs(), func(p packs.Pack) bool {
		return p.Name == pack && p.Core
	})
}

// CacheErr says why compiled code could not be kept in Config.CacheDir, for the
// operator: it may name the directory. Nil when all is well or nothing was
// compiled yet.
func (e *Engine) CacheErr() error {
	var errs []error
	for _, l := range e.loads {
		if in := l.get(); in != nil {
			errs = append(errs, in.CacheErr())
		}
	}
	return errors.Join(errs...)
}

// Run runs a program in a fresh instance and waits for its end. An error means
// that the program did not start; it wraps one of the package's errors or is
// the host's fault. Otherwise the Result says how the program ended.
//
// Run waits for a slot as long as ctx allows. Compiling the
// interpreter on first use also counts against ctx: call Prepare before.
func (e *Engine) Run(ctx context.Context, p Program) (Result, error) {
	if len(p.Argv) == 0 {
		return Result{}, fmt.Errorf("%w: Argv: empty", ErrBadProgram)
	}
	c, err := lookup(p.Argv[0])
	if err != nil {
		return Result{}, err
	}
	if err := e.begin(); err != nil {
		return Result{}, err
	}
	defer e.runs.Done()
	e.needs(c.pack)
	in, err := e.interpreter(ctx, c.pack)
	if err != nil {
		return Result{}, err
	}
	release, err := e.calling.begin(p)
	if err != nil {
		return Result{}, err
	}
	defer release()
	since := time.Now()
	if err := e.acquireSlot(ctx); err != nil {
		return Result{}, fmt.Errorf("%w: waited %v: %w", ErrBusy, time.Since(since).Round(time.Millisecond), err)
	}
	// A run that waits for what it has called outside keeps its memory, and lets
	// others compute.
	p.Place, p.Bench = guest.NewPlace(e.acquireSlot, func() { e.slots.Release(1) }), e.bench
	r, err := guest.New(ctx, p, in.MinMemoryBytes())
	if err != nil {
		p.Place.Leave()
		return Result{}, fmt.Errorf("%w: %w", ErrBadProgram, err)
	}
	defer r.Close()
	return in.Run(ctx, r)
}

// begin counts a run, so that Close waits for it.
func (e *Engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.runs.Add(1)
	return nil
}

// acquireSlot waits for a slot.
func (e *Engine) acquireSlot(ctx context.Context) error {
	if e.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // Acquire may succeed with an ended context
		e.slots.Release(1)
		return context.Cause(ctx)
	}
	return nil
}

// Close waits for the programs that run, then releases all interpreters. When
// ctx ends first it returns its error and releases nothing; call it again after
// cancelling the programs. Further runs get ErrClosed.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.end(ErrClosed)
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		e.runs.Wait()
		e.builds.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		return fmt.Errorf("close engine: programs still run: %w", context.Cause(ctx))
	}
	var errs []error
	for _, l := range e.loads {
		if in := l.take(); in != nil {
			errs = append(errs, in.Close(ctx))
		}
	}
	errs = append(errs, e.host.Regions.Close())
	return errors.Join(errs...)
}

// lookup finds the command by its name or an alias.
func lookup(name string) (command, error) {
	if clang.IsProgram(name) {
		return command{name: name, pack: packs.Clang}, nil
	}
	var known []string
	for _, c := range commands {
		if c.name == name || slices.Contains(c.aliases, name) {
			return c, nil
		}
		known = append(known, c.name)
	}
	return command{}, fmt.Errorf("%w: %q; this engine has %s", ErrUnknownInterpreter, name, strings.Join(known, ", "))
}
