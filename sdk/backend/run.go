package backend

import (
	"context"
	"io"
	"time"

	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Limits bound a run or a sandbox. Zero members mean the backend's default,
// never "unlimited".
type Limits struct {
	// Wall is elapsed time of all steps together. In a run that may make calls
	// (RunSpec.Control) it bounds each stretch between two suspensions instead.
	Wall time.Duration `json:"wall,omitempty"`
	// CPU is processor time of all steps together.
	CPU time.Duration `json:"cpu,omitempty"`
	// MemoryBytes bounds the program's memory.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// CPUs is the number of processors, fractions allowed.
	CPUs float64 `json:"cpus,omitempty"`
	// Processes bounds processes and threads.
	Processes int64 `json:"processes,omitempty"`
	// StdoutBytes and StderrBytes bound what is kept of each stream: the head
	// is kept, the rest drained and counted.
	StdoutBytes int64 `json:"stdout_bytes,omitempty"`
	StderrBytes int64 `json:"stderr_bytes,omitempty"`
	// DiskBytes and DiskFiles bound DataDir.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	DiskFiles int64 `json:"disk_files,omitempty"`
}

// ProgramDir is the marker that stands for the program directory in Step.Argv
// and in Env values. It is language.Dir under the backend's own name.
const ProgramDir = "{dir}"

// RunSpec is one unit of work.
type RunSpec struct {
	Ref
	// RunID is unique and names the run in logs and usage.
	RunID string `json:"run_id"`
	// Inputs are placed before the program starts, in order.
	Inputs []Input `json:"inputs,omitempty"`
	// Program is the entry source, placed outside DataDir in a directory of
	// its own per run, and gone afterwards.
	Program Program `json:"program"`
	// Steps run in order, each only when the one before it exited 0. The last
	// is the program. ProgramDir in Argv and Env values stands for the
	// program directory; Args are never touched.
	Steps []Step `json:"steps"`
	// Env is added to the sandbox's environment.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working directory; empty means DataDir.
	Dir string `json:"dir,omitempty"`
	// Stdin says that RunIO.Stdin carries data. Otherwise stdin is at EOF.
	Stdin bool `json:"stdin,omitempty"`
	// Control offers programmatic calls to the last step; needs CapControl. Its
	// environment then has CAISSON_CONTROL, the path of a channel on which it sends
	// calls and gets answers, any number at once, and CAISSON_CALL, a command for
	// shells that makes one call; package control has the frames and what they may
	// carry. Without Control there is neither. Each call becomes a RunIO.Call. Only
	// programs of the run can open the channel, and it is gone with the run.
	//
	// The process stays alive while it waits: nothing is run again. As long as a call
	// is unanswered the wall limit stands still, and when the last one is answered it
	// starts anew from zero. Every other limit is a total. What is computed beside open
	// calls is bounded by Limits.CPU, where that is 0 by Limits.Wall for each of
	// Limits.CPUs; beyond that the run ends with StopCPU. Cancellation ends a run that
	// waits as any other.
	Control bool `json:"control,omitempty"`
	// Limits of this run.
	Limits Limits `json:"limits,omitzero"`
	// Collect says what to report as changed.
	Collect CollectSpec `json:"collect,omitzero"`
}

// Program is the text to run.
type Program struct {
	// File is one path segment.
	File string `json:"file"`
	// Source is the text, byte for byte.
	Source []byte `json:"source"`
}

// Step is one command without a shell.
type Step struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Args []string `json:"args,omitempty"`
}

// Input is one file to place. Exactly one of Inline, Chunked and CopyFrom says
// where its content comes from.
type Input struct {
	// Path is absolute, below DataDir.
	Path string `json:"path"`
	// Inline is the content itself; nil when it comes otherwise.
	Inline []byte `json:"inline,omitempty"`
	// Chunked content is read from RunIO.Input, once, in order.
	Chunked bool `json:"chunked,omitempty"`
	// CopyFrom takes a file of another sandbox of the same config.
	CopyFrom *CopySource `json:"copy_from,omitempty"`
	// Optional inputs that cannot be placed are named in RunResult.MissingInputs
	// instead of failing the run: the source is not to be had, or Path cannot be a
	// file because a directory is there, or a file where a directory is needed.
	Optional bool `json:"optional,omitempty"`
}

// CopySource is a file in a sandbox of the same config.
type CopySource struct {
	ID   string `json:"id"`
	Path string `json:"path"`
	// SHA256 pins the content, lower-case hex; empty takes what is there. A
	// file with another digest counts as missing.
	SHA256 string `json:"sha256,omitempty"`
}

// CollectSpec bounds the search for changed files.
type CollectSpec = files.CollectSpec

// RunIO is the live side of a run: the host implements it, the backend uses it.
// Started, Stdout and Stderr are called from one goroutine at a time; Call may
// be used concurrently. An error from any of them means that nobody listens any
// more: the backend stops the program.
type RunIO interface {
	// Input is the content of the Chunked input with that index in Inputs.
	// Inputs are read in order, each once and to its end, before Started. When a
	// run ends early, a Read of an input or of stdin may still be under way after
	// Run returned; what it yields is lost.
	Input(index int) (io.Reader, error)
	// Stdin is the program's standard input when RunSpec.Stdin is set.
	Stdin() io.Reader
	// Started says that the program runs: the first instruction of the last
	// step, or of a build step, may now execute. It is called exactly once, or
	// never when the run fails before it. What comes after it is billed.
	Started() error
	// Stdout and Stderr carry output as it comes. The callee must not keep p.
	Stdout(p []byte) error
	Stderr(p []byte) error
	// Call asks the host for one programmatic call and waits for the answer, which may
	// take as long as the host pleases. It may come before output that was written
	// earlier. ctx ends when the program withdraws the call or the run ends. Call
	// returns when nobody works on it any more; until then it counts as one of those
	// that a run may have open.
	Call(ctx context.Context, call ControlCall) (ControlReply, error)
}

// ControlCall is a call from the running program to the outside.
type ControlCall = control.Call

// ControlReply answers a ControlCall.
type ControlReply = control.Reply

// StopReason says why a run ended.
type StopReason string

const (
	// StopExit: the program ended by itself, with any exit code or by a signal.
	StopExit StopReason = "exit"
	// StopTimeout: the wall limit.
	StopTimeout StopReason = "timeout"
	// StopCPU: the processor time limit.
	StopCPU StopReason = "cpu"
	// StopMemory: the memory limit.
	StopMemory StopReason = "memory"
	// StopDisk: the limit of what a sandbox stores, or storage with nothing left: the
	// program was stopped, or failed after it was refused space. ExitCode tells which.
	StopDisk StopReason = "disk"
	// StopOutput: output beyond what a backend is willing to drain.
	StopOutput StopReason = "output"
	// StopCanceled: the caller went away.
	StopCanceled StopReason = "canceled"
	// StopLost: the sandbox or its backend vanished after the program started.
	StopLost StopReason = "lost"
)

// RunResult is what a run came to. It is complete for every stop reason but
// StopLost.
type RunResult struct {
	Stop StopReason `json:"stop"`
	// ExitCode is the exit status of the last step that ran: 128+n for signal n
	// and -1 when the program did not end by itself.
	ExitCode int `json:"exit_code"`
	// Signal names the signal that ended the program, for example "SIGKILL".
	Signal string `json:"signal,omitempty"`
	// Step is the index in RunSpec.Steps of the last step that ran.
	Step int `json:"step"`
	// Message is one line for people where Stop needs explaining.
	Message string `json:"message,omitempty"`
	// StdoutBytes and StderrBytes count what the program wrote, kept or not.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// StdoutTruncated and StderrTruncated say that not all of it was kept.
	StdoutTruncated bool `json:"stdout_truncated,omitempty"`
	StderrTruncated bool `json:"stderr_truncated,omitempty"`
	// Changed are regular files made or changed by this run, by content, with
	// digests, in lexical order. Inputs count as unchanged when their content
	// still is what was placed.
	Changed []Entry `json:"changed,omitempty"`
	// Deleted are paths of regular files that were there before and are gone.
	Deleted []string `json:"deleted,omitempty"`
	// Skipped counts changed files left out by CollectSpec.
	Skipped int `json:"skipped,omitempty"`
	// CollectFailed says that Changed and Deleted could not be established; they
	// are empty then, which does not mean that nothing changed.
	CollectFailed bool `json:"collect_failed,omitempty"`
	// MissingInputs are paths of Optional inputs that could not be placed.
	MissingInputs []string `json:"missing_inputs,omitempty"`
	Usage         Usage    `json:"usage"`
}

// Usage is what a run consumed.
type Usage struct {
	// Wall is elapsed time, without what the run was suspended for (RunSpec.Control).
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu,omitempty"`
	// Fuel is deterministic work units; 0 where the backend has none.
	Fuel uint64 `json:"fuel,omitempty"`
	// PeakMemoryBytes is 0 when unknown.
	PeakMemoryBytes int64 `json:"peak_memory_bytes,omitempty"`
	// BytesIn counts placed inputs and program, BytesOut output and changed files.
	BytesIn  int64 `json:"bytes_in,omitempty"`
	BytesOut int64 `json:"bytes_out,omitempty"`
}

// ExecRequest is one command.
type ExecRequest struct {
	Ref
	// Argv is the exact argument vector. With Shell it has one element, a
	// command line for /bin/sh.
	Argv  []string `json:"argv"`
	Shell bool     `json:"shell,omitempty"`
	// Dir is the working directory; empty means DataDir.
	Dir string `json:"dir,omitempty"`
	// Env is added to the sandbox's environment.
	Env map[string]string `json:"env,omitempty"`
	// Stdin is written, then closed; empty is EOF at once.
	Stdin []byte `json:"stdin,omitempty"`
	// User to run as; empty is the sandbox's default.
	User string `json:"user,omitempty"`
	// Timeout of the command; zero means the backend's default.
	Timeout time.Duration `json:"timeout,omitempty"`
	// MaxOutputBytes bounds each of stdout and stderr; zero means 1 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
}

// ExecResult is what a command came to.
type ExecResult struct {
	Stop            StopReason    `json:"stop"`
	ExitCode        int           `json:"exit_code"`
	Signal          string        `json:"signal,omitempty"`
	Stdout          []byte        `json:"stdout,omitempty"`
	Stderr          []byte        `json:"stderr,omitempty"`
	StdoutTruncated bool          `json:"stdout_truncated,omitempty"`
	StderrTruncated bool          `json:"stderr_truncated,omitempty"`
	Wall            time.Duration `json:"wall"`
}
