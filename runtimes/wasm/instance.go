package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// instance is one instance of a module. One goroutine uses it at a time: the one
// that made it, or the one that took it from the pool.
type instance struct {
	m      *Module
	mod    api.Module
	mem    api.Memory
	port   port
	memory linearMemory
	stderr head

	// base is the context that calls run under; the instance is in it.
	base context.Context
	// deadline is when the guest code that runs has to come back, in the time of
	// Module.now; 0 is never. ended is why it was stopped.
	deadline time.Duration
	ended    error
	// counter and account belong to fuelStop, and fuel is what the last call used.
	counter meter.Counter
	account meter.Account
	fuel    int64
	// calls counts calls, and atStart is the size of the memory before the first.
	calls   uint64
	atStart uint32
	// high is the largest memory that statistics know of.
	high uint32

	// running is the context of guest code while it runs; cancel belongs to
	// contextStop.
	running context.Context
	cancel  context.CancelFunc
	// counted is the clock of a deterministic module.
	counted int64
}

// failure is why a call failed. It becomes a *CallError once the instance is back.
type failure struct {
	reason Reason
	err    error
}

// newInstance makes an instance that is ready for calls: started, of the right
// version, configured. ctx bounds it, as does Limits.StartTimeout.
func (m *Module) newInstance(ctx context.Context) (*instance, error) {
	in := &instance{m: m, port: m.convention.port()}
	in.base = context.WithValue(context.Background(), instanceKey{}, in)
	in.memory.limit = uint64(m.spec.Limits.MemoryBytes)
	limits := bounds{m.spec.Limits.StartTimeout, fuelFor(m.spec.Limits.StartTimeout)}
	armed := m.stop.arm(experimental.WithMemoryAllocator(context.WithValue(ctx, instanceKey{}, in), &in.memory), in, limits)
	err := in.start(armed)
	if err == nil && m.spec.Config != nil {
		err = in.configure(armed)
	}
	stopped := m.stop.disarm(in)
	m.stats.startFuel.Add(uint64(in.fuel))
	if err == nil && stopped == nil {
		in.calls = 0
		in.atStart = in.mem.Size()
		in.noteMemory()
		return in, nil
	}
	in.close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var call *CallError
	if errors.Is(err, ErrRefused) || errors.As(err, &call) {
		return nil, err
	}
	f := in.explain(err, stopped, limits)
	return nil, &CallError{Module: m.spec.Name, Reason: f.reason, Err: f.err}
}

// start instantiates the module, which runs its start section, and opens its port.
func (in *instance) start(ctx context.Context) error {
	mod, err := in.m.runtime.InstantiateModule(ctx, in.m.compiled, in.moduleConfig())
	if err != nil {
		return err
	}
	in.mod, in.mem = mod, mod.Memory()
	in.count(mod)
	return in.port.open(ctx, in)
}

// configure hands the instance its configuration.
func (in *instance) configure(ctx context.Context) error {
	f := in.port.configure(ctx, in)
	switch f.reason {
	case "":
		return nil
	case ReasonTrap:
		return f.err // explained together with the end of the time limit
	}
	return &CallError{Module: in.m.spec.Name, Op: OpConfigure, Reason: f.reason, Err: f.err}
}

// call runs one operation and appends the reply to out. keep reports whether the
// instance may serve another.
func (in *instance) call(op uint32, input, out []byte) (reply []byte, f failure, keep bool) {
	limits := bounds{in.m.spec.Limits.Timeout, in.m.spec.Limits.Fuel}
	in.calls++
	// What an earlier call printed or was refused explains nothing about this one.
	in.memory.refused = false
	in.stderr.buf = in.stderr.buf[:0]
	// The guest runs detached from its caller: see the package documentation.
	ctx := in.m.stop.arm(in.base, in, limits)
	reply, f = in.port.invoke(ctx, in, op, input, out)
	stopped := in.m.stop.disarm(in)
	in.noteMemory()
	if f.reason == ReasonTrap {
		f = in.explain(f.err, stopped, limits)
	}
	return reply, f, stopped == nil && (f.reason == "" || f.reason == ReasonGuest)
}

// explain says why guest code failed with err: stopped, if it was, for a limit;
// short of memory; or by itself.
func (in *instance) explain(err, stopped error, limits bounds) failure {
	var exit *sys.ExitError
	exited := errors.As(err, &exit)
	switch {
	case errors.Is(stopped, meter.ErrOutOfFuel):
		return failure{ReasonFuel, fmt.Errorf("guest code used more than %d units of fuel", limits.fuel)}
	case stopped != nil && (exited || err == nil || errors.Is(err, stopped)):
		return failure{ReasonTimeout, fmt.Errorf("guest code ran longer than %v", limits.time)}
	}
	var text string
	if exited {
		text = fmt.Sprintf("exited with code %d", exit.ExitCode())
	} else {
		// wazero adds a stack trace of the guest, one frame a line.
		text, _, _ = strings.Cut(err.Error(), "\n")
		text = strings.TrimSuffix(strings.TrimPrefix(text, "wasm error: "), " (recovered by wazero)")
		in.m.spec.Log.Debug("guest code trapped", "module", in.m.spec.Name, "error", err)
	}
	if said := firstLine(in.stderr.buf); said != "" {
		text += ": " + said
	}
	if in.memory.refused {
		return failure{ReasonMemory, fmt.Errorf("after it was refused more than %d bytes: %s", in.memory.limit, text)}
	}
	return failure{ReasonTrap, errors.New(text)}
}

// firstLine returns the first line with text in what a guest wrote to standard
// error, bounded.
func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return printable(line[:min(len(line), 200)])
}

// noteMemory keeps the statistics' high-water mark.
func (in *instance) noteMemory() {
	if size := in.mem.Size(); size > in.high {
		in.high = size
		in.m.stats.memory(size)
	}
}

const (
	// wornCalls is how many calls an instance serves before its memory is looked at.
	wornCalls = 256
	// wornShare is the part of the memory limit, in percent, beyond which an
	// instance that grew is replaced before it fails.
	wornShare = 75
)

// worn reports whether the instance has grown close to its memory limit: some
// runtimes never give memory back, and replacing one early costs nobody a call.
func (in *instance) worn() bool {
	return in.calls >= wornCalls && in.high > in.atStart &&
		uint64(in.high) > in.memory.limit/100*wornShare
}

// close frees the instance. No guest code runs in it any more.
func (in *instance) close() {
	if in.mod != nil {
		// Nothing was opened on its behalf that closing could fail on.
		_ = in.mod.Close(context.Background())
	}
}
