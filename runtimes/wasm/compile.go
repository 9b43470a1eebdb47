package wasm

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// compileTimeout bounds the translation of a module, which takes two seconds for
// megabytes of code that means well.
const compileTimeout = 5 * time.Minute

// compile translates the module, once; all instances share the result. It returns
// when ctx ends.
func (m *Module) compile(ctx context.Context, code []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, compileTimeout, fmt.Errorf("%w: it takes longer than %v to compile", ErrRefused, compileTimeout))
	defer cancel()
	config := m.stop.configure(wazero.NewRuntimeConfig()).WithDebugInfoEnabled(false)
	if m.spec.CacheDir == "" {
		return m.translate(ctx, config, code)
	}
	return m.compileCached(config, code, func(config wazero.RuntimeConfig) error { return m.translate(ctx, config, code) })
}

// translate has wazero compile the module. wazero looks at the context between two
// functions. So if ctx ends, what it is doing is finished without anybody waiting,
// and then thrown away; package meter has bounded what one function can take.
func (m *Module) translate(ctx context.Context, config wazero.RuntimeConfig, code []byte) error {
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	var compiled wazero.CompiledModule
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("compiler: panic: %v", p)
			}
		}()
		// A single worker would not look at the context.
		ctx := experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
		compiled, err = rt.CompileModule(ctx, code)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		late := &Module{runtime: rt, cache: m.cache}
		m.cache = nil
		go func() {
			<-done
			late.free()
		}()
		return context.Cause(ctx)
	}
	m.runtime = rt
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	m.compiled = compiled
	return nil
}
