package clang

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// idleTime is how long the tools stay loaded when nobody uses them. To load them
// again takes two seconds.
const idleTime = 10 * time.Minute

// tools are the loaded toolchain.
type tools struct {
	clang, linker *codecache.Module
	sysroot       *tree
	parts         map[string][]byte // object files that programs are linked with

	// headers are the precompiled ones, nil until they are made; headersDone is
	// closed when that is over, headersErr says why some are missing.
	headers     atomic.Pointer[headers]
	headersDone chan struct{}
	headersErr  error
}

// loader keeps the tools while somebody needs them.
type loader struct {
	cfg  Config
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup

	// openTools and finish are load's two halves; tests replace them.
	openTools func(context.Context) (*tools, error)
	finish    func(context.Context, *tools) error

	mu      sync.Mutex
	loading chan struct{} // closed when the attempt under way is over; nil if none is
	ready   *tools
	err     error // of the last attempt
	cache   error // of the last success
	users   int
	timer   *time.Timer // runs while there are no users
}

func (l *loader) init(cfg Config) {
	l.cfg, l.openTools = cfg, l.open
	l.finish = func(ctx context.Context, t *tools) error { return t.makeHeaders(ctx, cfg.Cache.Dir) }
	l.life, l.end = context.WithCancelCause(context.Background())
}

// acquire returns the tools, which stay loaded until release is called. It waits
// for them as long as ctx allows. Whoever comes first begins to load them; that goes
// on without it, since whoever asks next wants the result, too.
func (l *loader) acquire(ctx context.Context) (_ *tools, release func(), err error) {
	for {
		l.mu.Lock()
		if l.life.Err() != nil {
			l.mu.Unlock()
			return nil, nil, errClosed
		}
		if l.ready != nil {
			l.users++
			if l.timer != nil {
				l.timer.Stop()
				l.timer = nil
			}
			t := l.ready
			l.mu.Unlock()
			return t, sync.OnceFunc(l.release), nil
		}
		if l.loading == nil {
			l.loading = make(chan struct{})
			l.work.Go(l.load)
		}
		loading := l.loading
		l.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		l.mu.Lock()
		err := l.err
		l.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

func (l *loader) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && l.life.Err() == nil {
		l.timer = time.AfterFunc(idleTime, l.drop)
	}
}

// drop releases tools that nobody has used for a while.
func (l *loader) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users > 0 || l.ready == nil || l.timer == nil {
		return // somebody was faster
	}
	select {
	case <-l.ready.headersDone:
	default: // they are being used to make headers
		l.timer = time.AfterFunc(idleTime, l.drop)
		return
	}
	l.timer = nil
	t := l.ready
	l.ready = nil
	_ = t.close(context.WithoutCancel(l.life)) // it is memory only
	debug.FreeOSMemory()                       // nobody else needs that much
}

// load makes one attempt.
func (l *loader) load() {
	t, err := l.openTools(l.life)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.life.Err() != nil {
		err = errors.Join(errClosed, t.close(context.WithoutCancel(l.life)))
	}
	if l.err = err; err == nil {
		l.ready = t
		l.cache = t.cacheErr()
		l.timer = time.AfterFunc(idleTime, l.drop)
		l.work.Go(func() {
			defer close(t.headersDone)
			t.headersErr = l.finish(l.life, t)
		})
	}
	close(l.loading)
	l.loading = nil
}

// open reads the files and compiles the tools, one after the other: each takes
// most of a gigabyte while it is compiled.
func (l *loader) open(ctx context.Context) (_ *tools, err error) {
	t := &tools{headersDone: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(context.WithoutCancel(ctx)))
		}
	}()
	archive, err := l.cfg.Read(FileSysroot)
	if err != nil {
		return nil, err
	}
	if t.sysroot, err = newSysroot(archive); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		to   **codecache.Module
	}{{FileClang, &t.clang}, {FileLinker, &t.linker}} {
		wasm, err := l.cfg.Read(f.name)
		if err != nil {
			return nil, err
		}
		if *f.to, err = guest.Load(ctx, l.cfg.Cache, wasm, meter.Options{Unstable: true, Exports: toolExports}); err != nil {
			return nil, fmt.Errorf("clang: %s: %w", f.name, err)
		}
	}
	if err := t.makeObjects(ctx); err != nil {
		return nil, err
	}
	if !t.clang.Cached || !t.linker.Cached {
		debug.FreeOSMemory() // to compile takes most of a gigabyte
	}
	return t, nil
}

// cacheErr says why the code could not be kept.
func (t *tools) cacheErr() error {
	var errs []error
	for _, m := range []*codecache.Module{t.clang, t.linker} {
		if m != nil {
			errs = append(errs, m.CacheErr)
		}
	}
	return errors.Join(errs...)
}

func (t *tools) close(ctx context.Context) error {
	var errs []error
	for _, m := range []*codecache.Module{t.clang, t.linker} {
		if m != nil {
			errs = append(errs, m.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// close waits for what goes on and releases the tools. Nobody may use them.
func (l *loader) close(ctx context.Context) error {
	l.mu.Lock() // so that nobody begins to load meanwhile
	l.end(errClosed)
	l.mu.Unlock()
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.ready == nil {
		return nil
	}
	t := l.ready
	l.ready = nil
	return t.close(ctx)
}

// loaded reports whether the tools are there.
func (l *loader) loaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready != nil
}

func (l *loader) cacheErr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.cache
	if l.ready != nil {
		select {
		case <-l.ready.headersDone:
			err = errors.Join(err, l.ready.headersErr)
		default:
		}
	}
	return err
}
