// Package codecache meters and compiles WebAssembly with a disk cache that cannot
// hurt.
//
// wazero's own cache trusts its files: a truncated entry makes compilation fail
// for ever and a flipped byte can end the process. Here each module has a
// directory of its own with exactly one entry, the rewritten module beside it,
// and our digest of both. An entry without a matching digest, or anything
// unexpected, is deleted and made anew; a directory that others may write to is
// not used at all, since its content is run as machine code. A broken cache costs
// time, never a failure.
//
// Nothing stops a guest that was compiled here but what [meter.Options] put into
// it: wazero's own cancellation is off, since it makes guests several times slower
// and misses some shapes of code.
package codecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// scheme is part of each key; raise it when the layout or the options of the
// runtime change.
const scheme = "caisson-code-3"

// Generation stands for the versions of what makes code: this package, the rewriter
// and the compiler. It is part of each key, and what a cache that others share is
// swept by.
var Generation = sync.OnceValue(func() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", scheme, meter.Version, wazeroVersion()))
	return hex.EncodeToString(sum[:4])
})

// wazeroVersion is that of the compiler, whose code and system calls are what is kept.
func wazeroVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/tetratelabs/wazero" {
			if d.Replace != nil {
				d = d.Replace
			}
			return d.Version + " " + d.Sum
		}
	}
	return ""
}

// Module is a compiled module and the runtime it lives in, which nothing else
// shares.
type Module struct {
	Runtime wazero.Runtime
	Code    wazero.CompiledModule
	// Data are the data segments that meter.Options.DropData took out.
	Data []meter.Segment
	// Key identifies what was compiled: the module as it was given, how it was
	// metered, and the platform. What is derived from the compiled module is kept
	// under it.
	Key string
	// Cached tells that the rewritten module and the machine code came from the
	// disk.
	Cached bool
	// CacheErr says why the cache was not used or not filled; the module is
	// good all the same. It is nil when no cache was asked for.
	CacheErr error

	cache wazero.CompilationCache
}

// Close releases the runtime with everything instantiated in it.
func (m *Module) Close(ctx context.Context) error {
	err := m.Runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

// Cache is where compiled code is kept, and who compiles what is not there.
type Cache struct {
	// Dir is the cache directory, made if necessary; "" keeps nothing.
	Dir string
	// Elsewhere, if it is set, has another process fill Dir with what is needed, and
	// waits for that. What is not in Dir afterwards is compiled here all the same.
	Elsewhere func(ctx context.Context) error
}

// ErrElsewhere: the process that was to compile a module failed.
var ErrElsewhere = errors.New("the process that compiles failed")

// Compile meters wasm as opts say and compiles it in a new runtime.
//
// Concurrent calls for the same bytes and options, in this or other processes,
// compile once: the later ones wait for the first and read its result. The
// returned error is about wasm, opts, ctx or c.Elsewhere only; what meter refuses is a
// [meter.Error], and what Elsewhere returned wraps ErrElsewhere too.
func (c Cache) Compile(ctx context.Context, wasm []byte, opts meter.Options) (*Module, error) {
	j := newJob(wasm, opts)
	if c.Dir == "" {
		return j.withoutCache(ctx, nil)
	}
	m, err := c.inEntry(ctx, j, c.Elsewhere == nil)
	if m != nil || err != nil {
		return m, err
	}
	if err := c.Elsewhere(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	return c.inEntry(ctx, j, true)
}

// inEntry takes a module from its entry. If it is not there it is compiled and kept,
// if that is wanted; else there is none.
func (c Cache) inEntry(ctx context.Context, j job, compile bool) (*Module, error) {
	e, err := openEntry(ctx, c.Dir, j.key)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return j.withoutCache(ctx, err)
	}
	defer e.close()
	return e.load(ctx, j, compile)
}

// job is what Compile was asked for.
type job struct {
	wasm []byte
	opts meter.Options
	key  string
}

func newJob(wasm []byte, opts meter.Options) job {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s %s\n%s\n", Generation(), runtime.GOOS, runtime.GOARCH, opts.Key())
	h.Write(wasm)
	return job{wasm, opts, hex.EncodeToString(h.Sum(nil)[:16])}
}

// rewrite meters the module.
func (j job) rewrite() (rewritten, error) {
	res, err := meter.Rewrite(j.wasm, j.opts)
	if err != nil {
		return rewritten{}, fmt.Errorf("meter module: %w", err)
	}
	return rewritten{res.Module, res.Data}, nil
}

// withoutCache compiles for this process only; reason says why, nil if no cache
// was asked for.
func (j job) withoutCache(ctx context.Context, reason error) (*Module, error) {
	rw, err := j.rewrite()
	if err != nil {
		return nil, err
	}
	m, err := j.compile(ctx, rw, nil)
	if m != nil {
		m.CacheErr = reason
	}
	return m, err
}

// compile builds the runtime and the code. wazero has panicked on bad cache
// entries before, so a panic counts as an error.
func (j job) compile(ctx context.Context, rw rewritten, cache wazero.CompilationCache) (m *Module, err error) {
	// Without debug information reading an entry is ten times faster.
	cfg := wazero.NewRuntimeConfig().WithDebugInfoEnabled(false)
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	m = &Module{Runtime: wazero.NewRuntimeWithConfig(ctx, cfg), Data: rw.data, Key: j.key, cache: cache}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compile module: panic: %v", p)
		}
		if err != nil {
			err = errors.Join(err, m.Close(context.WithoutCancel(ctx)))
			m = nil
		}
	}()
	// With one worker wazero does not look at the context.
	workers := max(2, runtime.GOMAXPROCS(0))
	if m.Code, err = m.Runtime.CompileModule(experimental.WithCompilationWorkers(ctx, workers), rw.module); err != nil {
		return m, fmt.Errorf("compile module: %w", err)
	}
	return m, nil
}
