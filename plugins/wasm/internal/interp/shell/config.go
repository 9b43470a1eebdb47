package shell

import (
	"context"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// WorkerArg is the one argument with which this program is started as a worker.
// It must call worker.Serve then.
const WorkerArg = "run-shell-script"

// Config sets up an Interpreter.
type Config struct {
	// Command, with arguments, starts a worker: this very program with
	// WorkerArg.
	Command []string
	// Dir is where workers have their directories of named pipes; empty means
	// the system's directory for temporary files.
	Dir string
	// Programs are the names of commands that Run runs, such as "python3".
	Programs []string
	// Run runs such a program within the script's run: with its directories
	// and its place among the engine's runs. It does not wait for another one.
	Run func(ctx context.Context, p guest.Program) (guest.Result, error)
}
