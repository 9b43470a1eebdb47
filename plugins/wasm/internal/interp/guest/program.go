// Package guest holds what every interpreter of the engine shares: the
// description of one run and its outcome, the mounts, the linear memory with
// its limit, the fuel, cancellable standard input and clock waits.
//
// It knows no language. An interpreter gets its module from [Load] and its instances
// from package machine, which binds each to the [Run] that it serves. It calls
// [Run.Begin], calls the instance with [Run.Context], and returns [Run.Outcome]. Where
// there is nothing to gain from images and memory that is used again, [Run.Context] and
// [Run.ModuleConfig] are enough to make an instance for one run.
//
// # Fuel
//
// The modules are metered (package meter): whenever a slice of fuel is spent, the
// guest calls the host, which looks at the run's context and its budget, lets
// other goroutines run and grants the next slice. Nothing else stops a guest, and
// an instance must never be closed from another goroutine: its memory would vanish
// below running code. Host functions that may wait look at the context by
// themselves, and end the guest with [ErrEnded].
//
// What the host does for a guest is charged as well; host functions of an
// interpreter's own do that with [Run.Charge]. Waiting costs nothing.
package guest

import (
	"io"
	"os"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Guest paths of the three mounts.
const (
	// DataDir is the working directory and HOME of every program.
	DataDir = "/mnt/data"
	// TmpDir is scratch space, fresh for each run.
	TmpDir = "/tmp"
	// EntryDir holds the program's own source, read-only.
	EntryDir = "/run/caisson"
)

// DefaultMemoryBytes is the memory limit of a run that sets none: 512 MiB.
const DefaultMemoryBytes = 512 << 20

// Mount is a host directory as a guest sees it.
type Mount struct {
	// Root is the directory. The guest cannot leave it, whatever links it or
	// anybody else makes inside. The caller keeps ownership and closes it
	// after the run.
	Root *os.Root
	// Quota bounds what may be stored under Root. Runs that share a
	// directory must share its Quota, else growth is counted twice or not at
	// all. Nil means rootfs.DefaultLimits, counted from zero for this run.
	Quota *rootfs.Quota
}

// Program is one run.
type Program struct {
	// Argv is the command line, exact: Argv[0] names the interpreter
	// ("python3", "node", "ts"; see Engine.Languages), the rest is passed on
	// as it is. Argv[1] is normally the absolute guest path of the entry
	// file, such as /run/caisson/main.py.
	Argv []string
	// Env is the program's whole environment, except that HOME, PWD, TMPDIR,
	// LANG and PATH are given defaults when absent.
	Env map[string]string
	// Stdin is read on demand; nil is end of file at once. A Read that is
	// pending when the run ends is abandoned; if Stdin is also an io.Closer
	// it is closed then, which should make that Read return.
	Stdin io.Reader
	// Stdout and Stderr get the program's output as it is written; nil
	// discards. Each is called from one goroutine at a time and never after
	// Run returned. A Write that blocks holds the program back, and holds Run
	// back even after the deadline: a writer that may block must return when
	// the run's context ends. After a Write that failed the stream is
	// discarded and Result.OutputErr is set; the program is not told.
	Stdout, Stderr io.Writer
	// Data and Tmp are writable. Data.Root is required; without Tmp.Root the
	// program has no /tmp.
	Data, Tmp Mount
	// Entry is the directory of the program's source; nil mounts nothing.
	Entry *os.Root
	// MemoryBytes bounds the linear memory; 0 means DefaultMemoryBytes. It is
	// rounded down to 64 KiB pages.
	MemoryBytes int64
	// FuelLimit bounds the fuel of the run, in units; 0 is no bound. See
	// FuelPerSecond. The program is stopped at the first look at the counter
	// behind the limit, always at the same place.
	FuelLimit int64
	// Control is the channel of a run that may make calls; nil for others. The program
	// finds it at ControlPath, and scripts have ControlCommand.
	Control *control.Run
	// Beside bounds what is computed while calls are open; nil for no bound.
	Beside *Beside
	// Place is where the run has its place among those that compute; nil if it need
	// not care. Whoever makes the Run has entered it, and Run.Close leaves it.
	Place *Place
	// Bench is where the run computes beside open calls, once that takes long; nil where
	// its place is for that too.
	Bench *Bench
	// Started is called once, from Run's goroutine, directly before the first
	// instruction of the program; nil is allowed. When it was not called
	// nothing ran.
	Started func()
}

// Reason says how a run ended. The values are those of the backend contract.
type Reason string

// The ways in which a run that started can end.
const (
	ReasonExit     Reason = "exit"     // the program ended by itself, crash included
	ReasonTimeout  Reason = "timeout"  // the context's deadline passed
	ReasonCanceled Reason = "canceled" // the context was cancelled
	ReasonMemory   Reason = "memory"   // the interpreter could not go on without more memory
	ReasonCPU      Reason = "cpu"      // Program.FuelLimit was used up
)

// Exit codes given to programs that did not choose one: 128 plus the signal
// that a POSIX system would have used.
const (
	CodeAborted = 134 // the interpreter gave up (SIGABRT)
	CodeKilled  = 137 // deadline, cancellation, fuel or memory (SIGKILL)
	CodeCrashed = 139 // memory access out of bounds, native stack overflow (SIGSEGV)
)

// Result is the outcome of a run that started.
type Result struct {
	// Code is the program's exit status, 0 to 255.
	Code   int
	Reason Reason
	// Err has the detail of an ending the program did not choose: the
	// context's cause, or the trap. It is nil after an orderly exit. It
	// speaks of the guest only and may be shown to the caller.
	Err error
	// MemoryLimited tells that growth of the memory was refused at least
	// once, whatever the program made of it.
	MemoryLimited bool
	// PeakMemoryBytes is the largest size of the linear memory.
	PeakMemoryBytes int64
	// WallTime is the time from Started to the end.
	WallTime time.Duration
	// Fuel is what the run used, in units: what its code executed and what the
	// host did for it. The same program with the same input uses the same, on any
	// machine.
	Fuel int64
	// OutputErr is the first error of Stdout or Stderr, nil if there was none.
	OutputErr error
}
