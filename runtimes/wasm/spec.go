package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Operation numbers of ABI v1, for [Module.Call]. Package abi says what each means.
const (
	OpDescribe  = uint32(abi.OpDescribe)
	OpSelftest  = uint32(abi.OpSelftest)
	OpConfigure = uint32(abi.OpConfigure)
	OpAdmit     = uint32(abi.OpAdmit)
	OpResult    = uint32(abi.OpResult)
	OpList      = uint32(abi.OpList)
	OpPlan      = uint32(abi.OpPlan)
)

// Spec is everything Load needs to know: the module and what its manifest says.
type Spec struct {
	// Name is used in errors and logs. Required.
	Name string
	// Module is the binary, at most 64 MiB. It is not kept.
	Module []byte
	// ABI is ABIv1, which empty means too, or ABIOPA.
	ABI string
	// Imports are the functions of host_v1 that the module may import: "log",
	// "now_ms", "rand".
	Imports []string
	// WASI grants WASI preview 1: clocks, randomness, and streams, arguments,
	// environment and files that are all empty.
	WASI bool
	// Deterministic fixes what would differ between two runs: the wall clock stands
	// at 2000-01-01, the monotonic clock advances only as it is read and slept on,
	// randomness is zeros.
	Deterministic bool
	// Config is the operator's configuration as JSON, already valid by the
	// manifest's schema. Each instance gets it by OpConfigure before its first call.
	// Nil sends none; "{}" is not an error for a module that takes no configuration.
	// A module of ABIOPA finds it at data.config.
	Config []byte
	// Limits bound the module; a zero field has a default.
	Limits Limits
	// Unmetered takes a module even if package meter does not support what it uses,
	// such as exceptions. Its code is then stopped by wazero's own cancellation, which
	// is slower and does not see every shape of code: one that runs long without a
	// loop cannot be stopped and holds up the whole process. It is for operators who
	// trust the author. Without it such a module is refused.
	Unmetered bool
	// Log receives what the module and its pool have to say; nil discards it.
	Log hclog.Logger
	// CacheDir keeps compiled code between starts; empty compiles each time. The
	// directory is made if it is missing and must be writable by its owner only,
	// since what is in it is executed.
	CacheDir string
}

// Limits bound one module. Zero means the default.
type Limits struct {
	// MemoryBytes bounds the memory of one instance. Default 64 MiB.
	MemoryBytes int64
	// Timeout is how long guest code may run in one call. Default 1 s.
	Timeout time.Duration
	// Fuel is how much guest code may compute in one call, in the units that package
	// meter describes, about one for each instruction. Unlike Timeout it ends the
	// same call at the same place whatever the machine and its load. Default: what
	// stands for Timeout, at meter.UnitsPerSecond. The start of an instance may use
	// what stands for StartTimeout.
	Fuel int64
	// StartTimeout is how long an instance may take from instantiation to the end
	// of its configuration. Default 10 s.
	StartTimeout time.Duration
	// Wait is how long a call waits for an instance when its caller sets no earlier
	// deadline. Default Timeout, and at least 1 s.
	Wait time.Duration
	// Instances is how many calls may run at once. Default GOMAXPROCS.
	Instances int
	// InputBytes and OutputBytes bound the payloads of one call. Default 1 MiB each.
	InputBytes  int64
	OutputBytes int64
}

const (
	maxModuleBytes  = 64 << 20
	maxInstances    = 1024
	maxFuel         = int64(1e15)
	pageBytes       = 64 << 10
	maxMemoryBytes  = 65536 * pageBytes
	defaultMemory   = 64 << 20
	defaultPayload  = 1 << 20
	defaultTimeout  = time.Second
	defaultStarting = 10 * time.Second
)

// check fills in defaults and refuses what cannot be meant.
func (s *Spec) check() error {
	switch {
	case s.Name == "":
		return errors.New("name: is required")
	case len(s.Module) == 0:
		return errors.New("module: is empty")
	case len(s.Module) > maxModuleBytes:
		return fmt.Errorf("module: %d bytes are more than %d", len(s.Module), maxModuleBytes)
	}
	for _, name := range s.Imports {
		if !slices.Contains(hostFunctions, name) {
			return fmt.Errorf("imports: %q is not a function of %s, which has %q", name, abi.HostModule, hostFunctions)
		}
	}
	s.Imports = slices.Clone(s.Imports)
	s.Config = bytes.Clone(s.Config)
	if s.Log == nil {
		s.Log = hclog.NewNullLogger()
	}
	return s.Limits.check()
}

// fuelFor is the fuel that stands for d.
func fuelFor(d time.Duration) int64 {
	const perNanosecond = meter.UnitsPerSecond / int64(time.Second)
	return min(int64(d), maxFuel/perNanosecond) * perNanosecond
}

// Complete returns l with the defaults in the place of zero fields, or what cannot be
// meant.
func (l Limits) Complete() (Limits, error) {
	err := l.check()
	return l, err
}

func (l *Limits) check() error {
	if l.Timeout == 0 {
		l.Timeout = defaultTimeout // others depend on it
	}
	for _, f := range []struct {
		name     string
		value    *int64
		standard int64
		most     int64
	}{
		{"memory_bytes", &l.MemoryBytes, defaultMemory, maxMemoryBytes},
		{"input_bytes", &l.InputBytes, defaultPayload, math.MaxInt32},
		{"output_bytes", &l.OutputBytes, defaultPayload, math.MaxInt32},
		{"timeout", (*int64)(&l.Timeout), int64(defaultTimeout), math.MaxInt64},
		{"start_timeout", (*int64)(&l.StartTimeout), int64(defaultStarting), math.MaxInt64},
		{"fuel", &l.Fuel, fuelFor(l.Timeout), maxFuel},
		{"wait", (*int64)(&l.Wait), int64(max(l.Timeout, defaultTimeout)), math.MaxInt64},
	} {
		if *f.value < 0 || *f.value > f.most {
			return fmt.Errorf("limits.%s: %d is not between 0 and %d", f.name, *f.value, f.most)
		}
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	if l.Instances < 0 || l.Instances > maxInstances {
		return fmt.Errorf("limits.instances: %d is not between 0 and %d", l.Instances, maxInstances)
	}
	if l.Instances == 0 {
		l.Instances = runtime.GOMAXPROCS(0)
	}
	if l.MemoryBytes < pageBytes {
		return fmt.Errorf("limits.memory_bytes: %d is less than one page of %d", l.MemoryBytes, pageBytes)
	}
	return nil
}
