package wasm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
)

// Module is a loaded module and its pool of instances. Its methods are safe for
// concurrent use.
type Module struct {
	spec       Spec
	convention convention
	digest     string
	imports    []string
	stop       stopper
	// epoch is what deadlines are counted from: a difference of monotonic clocks is
	// cheaper than the time of day.
	epoch    time.Time
	version  atomic.Uint32
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache
	guestLog *guestLog
	stats    counters

	// idle holds the instances nobody uses. It has room for all of them, so giving
	// one back never blocks.
	idle chan *instance
	// spent has one element for each instance that was discarded and not replaced
	// yet.
	spent chan struct{}
	// life ends when Close is called; done is closed when everything is freed.
	life context.Context
	end  context.CancelFunc
	done chan struct{}
}

// Call runs op with input and appends the reply to out, which may be nil. It
// returns the extended slice; on failure out as it was, and a [*CallError].
//
// ctx bounds the wait for an instance. Guest code itself is bounded by
// Limits.Timeout and Limits.Fuel and not by ctx: see the package documentation.
func (m *Module) Call(ctx context.Context, op uint32, input, out []byte) ([]byte, error) {
	r, err := m.Do(ctx, op, input, out)
	return r.Reply, err
}

// Result is what a call came to.
type Result struct {
	// Reply is the slice that the call was given, extended.
	Reply []byte
	// Fuel is what guest code used, in units of package meter. It is 0 if none ran,
	// and for a module that is not metered.
	Fuel int64
}

// Do is [Module.Call] that also reports what the call used, even if it failed.
func (m *Module) Do(ctx context.Context, op uint32, input, out []byte) (r Result, err error) {
	r.Reply = out
	m.stats.calls.Add(1)
	if int64(len(input)) > m.spec.Limits.InputBytes {
		err := fmt.Errorf("input of %d bytes is longer than %d", len(input), m.spec.Limits.InputBytes)
		return r, m.failed(op, failure{ReasonBadInput, err})
	}
	in, f := m.acquire(ctx)
	if in == nil {
		return r, m.failed(op, f)
	}
	keep := false
	// Deferred, so that no panic on the way can make the pool smaller.
	defer func() { m.release(in, keep) }()
	r.Reply, f, keep = in.call(op, input, out)
	r.Fuel = in.fuel
	m.stats.used(in.fuel)
	if f.reason != "" {
		return r, m.failed(op, f)
	}
	return r, nil
}

func (m *Module) failed(op uint32, f failure) error {
	m.stats.fail(f.reason)
	return &CallError{Module: m.spec.Name, Op: op, Reason: f.reason, Err: f.err}
}

// now is the time since epoch.
func (m *Module) now() time.Duration { return time.Since(m.epoch) }

// acquire takes an instance from the pool.
func (m *Module) acquire(ctx context.Context) (*instance, failure) {
	if m.life.Err() != nil {
		return nil, failure{reason: ReasonClosed}
	}
	if ctx.Err() != nil {
		return nil, gaveUp(ctx)
	}
	select {
	case in := <-m.idle:
		return in, failure{}
	default:
	}
	m.stats.waits.Add(1)
	began := time.Now()
	defer func() { m.stats.waited.Add(int64(time.Since(began))) }()
	t := time.NewTimer(m.spec.Limits.Wait)
	defer t.Stop()
	select {
	case in := <-m.idle:
		return in, failure{}
	case <-ctx.Done():
		return nil, gaveUp(ctx)
	case <-m.life.Done():
		return nil, failure{reason: ReasonClosed}
	case <-t.C:
		return nil, failure{ReasonBusy, fmt.Errorf("no instance of %d came free within %v", m.spec.Limits.Instances, m.spec.Limits.Wait)}
	}
}

// gaveUp tells a caller who left from one whose time was up.
func gaveUp(ctx context.Context) failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failure{ReasonBusy, fmt.Errorf("no instance came free before the caller's deadline: %w", context.Cause(ctx))}
	}
	return failure{ReasonCanceled, context.Cause(ctx)}
}

// release gives an instance back, or discards it.
func (m *Module) release(in *instance, keep bool) {
	if keep && !in.worn() {
		m.idle <- in
		return
	}
	if keep {
		m.stats.recycled.Add(1)
	} else {
		m.stats.discards.Add(1)
	}
	in.close()
	m.spent <- struct{}{}
}

// Info describes a loaded module, for people.
type Info struct {
	Name string
	// Digest is the SHA-256 of the module as it was given, in hexadecimal.
	Digest string
	// ABI is the version the module reports, for example "1.0" or "opa 1.3". It is
	// empty when nobody has asked the module.
	ABI string
	// Revision is what a bundle of ABIOPA calls itself, if anything.
	Revision string
	// Imports are the functions the module imports, as "module.name", sorted.
	Imports []string
	// Stop is how guest code is stopped: StopFuel or StopContext.
	Stop string
	// Limits are the limits in force, defaults filled in.
	Limits Limits
}

// Ways to stop guest code, in [Info.Stop].
const (
	// StopFuel: the module is metered.
	StopFuel = "fuel"
	// StopContext: it cannot be, and wazero's own cancellation stops it. See
	// Spec.Unmetered.
	StopContext = "context"
)

// Info returns what is known of the module.
func (m *Module) Info() Info {
	abi := ""
	if v := m.version.Load(); v != 0 {
		abi = m.convention.version(v)
	}
	return Info{
		Name:     m.spec.Name,
		Digest:   m.digest,
		ABI:      abi,
		Revision: m.convention.revision(),
		Imports:  slices.Clone(m.imports),
		Stop:     m.stop.name(),
		Limits:   m.spec.Limits,
	}
}

// Close refuses further calls, waits for those in progress and frees everything.
// When ctx ends first it returns an error, and the rest is freed as soon as the
// last call returns, which its time limit bounds. It may be called more than once.
func (m *Module) Close(ctx context.Context) error {
	m.end()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wasm module %q: close: calls are still in progress: %w", m.spec.Name, context.Cause(ctx))
	}
}
