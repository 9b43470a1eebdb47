package interp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/cachedir"
	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
)

// defaultPrepareWait is what Config.PrepareWait stands for when it is 0: long enough
// for code from the cache, and for most to be compiled; short enough for whoever
// waits for an answer.
const defaultPrepareWait = 20 * time.Second

// preparer is an interpreter that loads what its commands need when they need it.
type preparer interface {
	// Prepare loads what a command needs and waits for it as long as ctx allows,
	// whose cause it then returns. Loading goes on.
	Prepare(ctx context.Context, name string) error
}

// warmer is an interpreter of which there is more to load than Run needs.
type warmer interface {
	// Warm loads all of it.
	Warm(ctx context.Context) error
}

// load is how far one interpreter is. Success is kept; after a failure the next
// caller tries again.
type load struct {
	// awaited is closed when a program needs the interpreter for the first time.
	awaited chan struct{}
	needed  sync.Once

	mu       sync.Mutex
	ready    interpreter
	building chan struct{} // closed when the attempt under way is over; nil if none is
	err      error         // of the last attempt
}

func newLoad() *load { return &load{awaited: make(chan struct{})} }

// get returns the interpreter if it is ready, nil if not.
func (l *load) get() interpreter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// take removes the interpreter.
func (l *load) take() interpreter {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.ready
	l.ready = nil
	return in
}

// Prepare compiles what the command needs, or waits until others have, so that a
// Run of it does not. Its errors are those of Run. It waits as long as ctx and
// Config.PrepareWait allow and then returns ErrPreparing; what it waited for goes on.
func (e *Engine) Prepare(ctx context.Context, name string) error {
	c, err := lookup(name)
	if err != nil {
		return err
	}
	wait := e.cfg.PrepareWait
	if wait <= 0 {
		wait = defaultPrepareWait
	}
	e.needs(c.pack)
	bounded, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("waited %v; try again later", wait))
	defer cancel()
	in, err := e.interpreter(bounded, c.pack)
	if p, ok := in.(preparer); ok && err == nil {
		if err = p.Prepare(bounded, name); err != nil && bounded.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrPreparing, err)
		}
	}
	return err
}

// needs notes that a program needs the interpreter of a pack.
func (e *Engine) needs(pack string) {
	l := e.loads[pack]
	l.needed.Do(func() { close(l.awaited) })
}

// interpreter returns the compiled interpreter of a pack. Whoever comes first begins
// to build it; that goes on without it, since whoever asks next wants it too.
func (e *Engine) interpreter(ctx context.Context, pack string) (interpreter, error) {
	l := e.loads[pack]
	l.mu.Lock()
	if l.ready != nil {
		defer l.mu.Unlock()
		return l.ready, nil
	}
	building := l.building
	if building == nil {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			l.mu.Unlock()
			return nil, ErrClosed
		}
		building = make(chan struct{})
		l.building = building
		e.builds.Go(func() { e.build(pack, l) })
		e.mu.Unlock()
	}
	l.mu.Unlock()
	select {
	case <-building:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrPreparing, context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready == nil {
		return nil, errors.Join(l.err, context.Cause(e.life))
	}
	return l.ready, nil
}

// build makes one attempt at an interpreter.
func (e *Engine) build(pack string, l *load) {
	in, err := e.attempt(pack)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready, l.err = in, err
	close(l.building)
	l.building = nil
}

func (e *Engine) attempt(pack string) (interpreter, error) {
	if pack == shellPack {
		return e.newShell()
	}
	wasm, _, err := e.cfg.Packs.Read(pack)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissingPack, err)
	}
	in, err := build[pack](e.life, wasm, e.hostFor(pack), e.cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", pack, err)
	}
	return in, nil
}

// hostFor returns what the interpreter of a pack is given: its code comes from another
// process. Nobody runs anything before the core is ready, so that may have all there
// is; the others take what is left.
func (e *Engine) hostFor(pack string) machine.Host {
	host := e.host
	if e.compiler != nil {
		i := slices.IndexFunc(commands, func(c command) bool { return c.pack == pack })
		awaited := e.loads[pack].awaited
		if e.core(pack) {
			awaited = nil
		}
		host.Cache.Elsewhere = func(ctx context.Context) error {
			return e.compiler.compile(ctx, commands[i].language, awaited)
		}
	}
	return host
}

// Sweep deletes what no process has used for weeks from Config.CacheDir.
func (e *Engine) Sweep() error {
	if e.cfg.CacheDir == "" {
		return nil
	}
	_, err := cachedir.Sweep(e.cfg.CacheDir, codecache.Generation(), time.Now())
	return err
}
