// Package generic carries out a run with little: files and one command at a
// time. A backend that has nothing better embeds a Runner:
//
//	type Backend struct {
//		*generic.Runner
//		...
//	}
//
//	b.Runner = generic.New(b, generic.Options{})
//
// What it does is the unit of work of backend.Backend.Run: it places inputs and
// the program, executes the steps, streams and caps output, finds what changed
// by content, and cleans up. It is not a sandbox: isolation, limits of memory
// and processor, and the digests of Walk are the backend's.
package generic

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Files are what a Runner needs of backend.Backend.
type Files interface {
	// Walk returns digests when asked for; see backend.Backend.
	Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error)
	ReadFile(ctx context.Context, ref backend.Ref, path string) (io.ReadCloser, backend.Entry, error)
	// WriteFile must leave what was there when the reader fails.
	WriteFile(ctx context.Context, ref backend.Ref, path string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error)
	MakeDir(ctx context.Context, ref backend.Ref, path string) error
	Remove(ctx context.Context, ref backend.Ref, path string) error
}

// Primitives are what a Runner works with.
type Primitives interface {
	Files
	// Execute runs one command to its end and returns how it ended, also when
	// that was a limit (backend.StopTimeout and so on). When ctx ends, or a method
	// of out fails, it ends the command with all its descendants and returns
	// backend.StopCanceled. It returns once the command itself has ended and the
	// output written until then was passed on, even if a descendant keeps the
	// output open. An error means that the command could not be run, or that
	// nobody knows how it ended.
	Execute(ctx context.Context, cmd Command, out Output) (Result, error)
}

// Controller is what Primitives have besides where programs may make calls
// (backend.CapControl).
type Controller interface {
	// Listen returns the unix stream socket of a run and its path as programs of
	// the sandbox see it. Nobody but the run's programs may be able to connect.
	// Closing the listener removes the socket.
	Listen(ctx context.Context, ref backend.Ref, runID string) (l net.Listener, path string, err error)
	// Helper is the value of CAISSON_CALL (control.EnvCall), a path without blanks as
	// programs of the sandbox see it; empty for none.
	Helper() string
	// Used is the processor time of the command that runs in the sandbox, of all its
	// processes, until now; what it was at last when nothing runs any more. An error
	// ends the run.
	Used(ref backend.Ref) (time.Duration, error)
}

// Command is one step of a run.
type Command struct {
	backend.Ref
	// Argv is the exact argument vector.
	Argv []string
	// Env is added to the sandbox's environment.
	Env map[string]string
	// Dir is the working directory.
	Dir string
	// ProgramDir holds the program; Argv and Env name it already.
	ProgramDir string
	// Stdin is the command's input; at its end, at once when nil, the command
	// sees the end of file.
	Stdin io.Reader
	// Limits are those of the run, Wall and CPU less what earlier steps used. Of a run
	// that makes calls Wall is 0: only the end of the context of Execute says that
	// it is over.
	Limits backend.Limits
}

// Output takes what a command produces. Its methods are called from one
// goroutine at a time.
type Output interface {
	// Started says that the command's first instruction may execute now.
	Started() error
	Stdout(p []byte) error
	Stderr(p []byte) error
}

// Result is how a command ended.
type Result struct {
	Stop     backend.StopReason
	ExitCode int
	Signal   string
	Message  string
	// CPU, Fuel and PeakMemoryBytes are 0 when unknown.
	CPU             time.Duration
	Fuel            uint64
	PeakMemoryBytes int64
}

// Options of a Runner. Zero members take the defaults of the architecture.
type Options struct {
	// ProgramRoot is where programs are placed, each run's in a directory of its
	// own; it is outside DataDir and TmpDir. Default "/run/caisson".
	ProgramRoot string
	// Limits stand where a run names none. Default: 30 s wall, 1 MiB of stdout and
	// of stderr.
	Limits backend.Limits
	// CleanupTime bounds what is done after the program ended: finding changes and
	// removing the program, each. It does not depend on the caller. Default 30 s.
	CleanupTime time.Duration
	// Waiting is how many runs of one sandbox may wait for another to end;
	// a further one is a backend.KindCapacity. Default 32.
	Waiting int
	// KeepTmp leaves TmpDir alone: the backend gives every run one of its own.
	KeepTmp bool
}

func (o *Options) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.ProgramRoot == "" {
		o.ProgramRoot = "/run/caisson"
	}
	set(&o.Limits.Wall, 30*time.Second)
	if o.Limits.StdoutBytes == 0 {
		o.Limits.StdoutBytes = 1 << 20
	}
	if o.Limits.StderrBytes == 0 {
		o.Limits.StderrBytes = 1 << 20
	}
	set(&o.CleanupTime, 30*time.Second)
}

// Runner runs programs with primitives. It is safe for concurrent use: runs of
// one sandbox follow each other, since nobody could tell otherwise whose changes
// are whose.
type Runner struct {
	p     Primitives
	opts  Options
	turns *Turns
}

// New returns a runner over p.
func New(p Primitives, opts Options) *Runner {
	opts.defaults()
	return &Runner{p: p, opts: opts, turns: NewTurns(opts.Waiting)}
}
