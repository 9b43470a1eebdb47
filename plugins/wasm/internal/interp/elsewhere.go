package interp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
	"github.com/caisson-run/caisson/plugins/wasm/internal/child"
)

// CompileArg is the first argument with which this program is started to compile the
// interpreter of the language that the second names, for the cache; see Config.Compile.
// The third is one of the following, by which it lowers its priority: programs come
// first, and other work of the machine does if nobody waits for the interpreter.
const (
	CompileArg  = "compile-interpreter"
	NiceFirst   = "0"  // nothing can run before
	NiceAwaited = "5"  // some program needs it
	NiceAhead   = "19" // none does yet
)

// ErrCompiling: the process that was to compile an interpreter failed. A try after
// CompilePause starts another.
var ErrCompiling = errors.New("the interpreter could not be compiled")

// CompilePause is how long after a failure no other process is started for the same
// interpreter.
const CompilePause = 30 * time.Second

// compileTime bounds one process. The largest interpreter takes a minute of a
// processor, of which there may not be much.
const compileTime = 30 * time.Minute

// compiler has processes compile interpreters, one at a time: each needs a processor
// and up to a gigabyte of memory, which programs shall not be without.
type compiler struct {
	command []string
	env     []string
	dir     string // the cache
	warn    func(error)
	turn    chan struct{} // holds one element while a process runs
	// patience is the constant; tests have less.
	patience time.Duration

	mu     sync.Mutex
	failed map[string]failure // by language
}

type failure struct {
	err error
	at  time.Time
}

// newCompiler returns nil if there is no command or no place for what it makes.
func newCompiler(cfg Config) *compiler {
	if len(cfg.Compile) == 0 || cfg.CacheDir == "" {
		return nil
	}
	c := &compiler{command: cfg.Compile, env: cfg.CompileEnv, dir: cfg.CacheDir, warn: cfg.Warn, turn: make(chan struct{}, 1), patience: patience, failed: map[string]failure{}}
	if c.warn == nil {
		c.warn = func(error) {}
	}
	return c
}

// patience is how long a process that was started ahead may take once its interpreter
// is awaited: on a machine that is busy with other things it might never get to its
// end, so another takes its place.
const patience = 45 * time.Second

// compile has the interpreter of a language compiled. Without an error the cache may
// still lack it, which is then to be compiled here. awaited is closed when somebody
// needs the interpreter; nil means that nothing can run without it.
func (c *compiler) compile(ctx context.Context, language string, awaited <-chan struct{}) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	f := c.failed[language]
	c.mu.Unlock()
	if f.err != nil && time.Since(f.at) < CompilePause {
		return f.err
	}
	err := c.ahead(ctx, language, awaited)
	if errors.Is(err, errAwaited) {
		nice := NiceAwaited
		if awaited == nil {
			nice = NiceFirst
		}
		err = c.run(ctx, language, nice)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[language] = failure{err, time.Now()}
	return err
}

var errAwaited = errors.New("somebody waits for the interpreter")

// ahead compiles as long as nobody waits, or not for long; then it returns errAwaited.
func (c *compiler) ahead(ctx context.Context, language string, awaited <-chan struct{}) error {
	if awaited == nil {
		return errAwaited
	}
	select {
	case <-awaited:
		return errAwaited
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-awaited:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(c.patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errAwaited)
		case <-ctx.Done():
		}
	}()
	return c.run(ctx, language, NiceAhead)
}

// maxWords is how much of what the process says is kept.
const maxWords = 2 << 10

// run runs one process to its end. It ends with ctx, and with this process. The error
// does not say what only the operator should see.
func (c *compiler) run(ctx context.Context, language, nice string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, compileTime, fmt.Errorf("it takes longer than %v", compileTime))
	defer cancel()
	// What a process leaves that is killed goes with this directory.
	tmp, err := os.MkdirTemp(c.dir, cachedir.WorkPrefix+"compile-")
	if err != nil {
		c.warn(fmt.Errorf("compile %s within this process: %w", language, err))
		return nil
	}
	defer func() {
		if err := os.RemoveAll(tmp); err != nil {
			c.warn(err)
		}
	}()
	args := append(append([]string(nil), c.command...), CompileArg, language, nice)
	p, words, release, err := c.start(args, tmp)
	if err != nil {
		c.warn(fmt.Errorf("compile %s within this process: %w", language, err))
		return nil
	}
	defer release()
	defer context.AfterFunc(ctx, p.Kill)()
	var said bytes.Buffer
	_, _ = io.Copy(&said, io.LimitReader(words, maxWords))
	_, _ = io.Copy(io.Discard, words)
	err = p.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s: %w", ErrCompiling, language, context.Cause(ctx))
	case err != nil:
		c.warn(fmt.Errorf("%w: %s: %w: %s", ErrCompiling, language, err, strings.TrimSpace(said.String())))
		return fmt.Errorf("%w: %s: %w", ErrCompiling, language, err)
	}
	return nil
}

// start starts a process. words is what it says, release closes what it was given.
func (c *compiler) start(argv []string, tmp string) (p *child.Process, words io.Reader, release func(), err error) {
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close()
		}
	}
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	// At the end of its input the process ends, on systems that do not see to that.
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	ours, theirs = append(ours, hold), append(theirs, in)
	out, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	ours, theirs = append(ours, out), append(theirs, w)
	p, err = child.Start(&exec.Cmd{
		Path: argv[0], Args: argv, Dir: "/", Env: append([]string{"TMPDIR=" + tmp}, c.env...),
		Stdin: in, Stdout: w, Stderr: w,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return p, out, func() { closeAll(ours) }, nil
}
