package interp

import (
	"errors"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// The description of a run is shared with the interpreters.
type (
	// Program is one run; see guest.Program.
	Program = guest.Program
	// Mount is a host directory as a guest sees it; see guest.Mount.
	Mount = guest.Mount
	// Result is the outcome of a run that started; see guest.Result.
	Result = guest.Result
	// Reason says how a run ended; see guest.Reason.
	Reason = guest.Reason
)

// The reasons of guest, for callers that import only this package.
const (
	ReasonExit     = guest.ReasonExit
	ReasonTimeout  = guest.ReasonTimeout
	ReasonCanceled = guest.ReasonCanceled
	ReasonMemory   = guest.ReasonMemory
	ReasonCPU      = guest.ReasonCPU
)

// Guest paths of the mounts.
const (
	DataDir  = guest.DataDir
	TmpDir   = guest.TmpDir
	EntryDir = guest.EntryDir
)

// FuelPerSecond is the nominal rate of fuel; see guest.FuelPerSecond.
const FuelPerSecond = guest.FuelPerSecond

// Fuel returns the fuel that stands for d at the nominal rate.
func Fuel(d time.Duration) int64 { return guest.Fuel(d) }

// CPUTime returns the time that stands for units of fuel at the nominal rate.
func CPUTime(units int64) time.Duration { return guest.CPUTime(units) }

// Errors of Run and Warm; all mean that nothing ran.
var (
	// ErrUnknownInterpreter: Argv[0] names no interpreter of this engine.
	ErrUnknownInterpreter = errors.New("unknown interpreter")
	// ErrMissingPack: the interpreter exists but its file is not installed or
	// not the pinned one. The wrapping error has the command that adds it.
	ErrMissingPack = errors.New("interpreter pack missing")
	// ErrBusy: the context ended while the run waited for a slot, or too many programs
	// live that may make calls.
	ErrBusy = errors.New("no free slot")
	// ErrPreparing: the interpreter is being compiled, which takes long the first
	// time. A later try will find it ready.
	ErrPreparing = errors.New("interpreter is being prepared")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("engine closed")
	// ErrBadProgram: the Program breaks a rule; the wrapping error names the
	// field.
	ErrBadProgram = errors.New("bad program")
)

// Config sets up an Engine. The zero value of each field but Packs is usable.
type Config struct {
	// Packs are the verified interpreter files. Required.
	Packs *packs.Set
	// CacheDir keeps compiled code between processes. It is created with mode
	// 0700, may be shared by processes, and may be deleted at any time. Empty
	// compiles anew in each process.
	CacheDir string
	// TypeScript is the command, with arguments, that ends in
	// typescript.Serve: normally this very program with
	// typescript.HelperArg. Without it there is no TypeScript.
	TypeScript []string
	// Shell is the command, with arguments, that ends in worker.Serve of package
	// shell: normally this very program with shell.WorkerArg. Without it there
	// is no Bash.
	Shell []string
	// Compile is the command, with arguments, that with CompileArg and a language
	// after them compiles an interpreter into CacheDir: normally this very program.
	// CompileEnv is its environment. Without it interpreters are compiled within this
	// process, where that takes processors and memory from programs.
	Compile, CompileEnv []string
	// Warn is told what only the operator should see; nil drops it. It is safe for
	// concurrent use.
	Warn func(error)
	// MaxRunning bounds the programs that run at once; further ones wait. 0
	// means DefaultMaxRunning.
	MaxRunning int
	// Parked is how many instances of each interpreter wait for programs, booted and
	// ready; they cost memory, for Python some 20 MiB each. 0 means GOMAXPROCS, a
	// negative number none.
	Parked int
	// Idle is how long an interpreter must not have run anything until the memory
	// that is kept ready for it is given back, but for one instance; 0 means a minute.
	Idle time.Duration
	// PrepareWait bounds how long Prepare waits for an interpreter that is being
	// compiled. 0 means 20 seconds.
	PrepareWait time.Duration
	// MaxCalling bounds the programs that may make calls (Program.Control) and have not
	// ended, CallingBytes the sum of their memory limits: while they wait they have no
	// slot, and keep their memory and files. Further ones are refused. 0 means no bound.
	MaxCalling   int
	CallingBytes int64
}

// Language is one language of the engine and whether it can run.
type Language struct {
	// ID is the language's code on the wire: "py", "js", "ts".
	ID string
	// Interpreter is the name to put into Program.Argv[0].
	Interpreter string
	// Version describes the interpreter, such as "CPython 3.11.3".
	Version string
	// Pack is the pack that brings the interpreter, Licence its licence.
	Pack, Licence string
	// OnDemand languages take much memory when they are loaded: they are loaded when
	// a program comes, not ahead of it, and dropped when none has for a while.
	OnDemand bool
	// Missing says why the language cannot run and which command helps; empty
	// means that it can.
	Missing string
}
