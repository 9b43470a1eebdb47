// Package backend is the contract between Caisson and whatever runs code: an
// embedded WebAssembly engine, a container engine, a microVM provider.
//
// Backend is one Go interface, used alike by the host and by authors; the gRPC
// service of backend.proto mirrors it, so that Serve turns an implementation
// into a plugin process and the host talks to an equal Backend on its side. One
// process serves many named configs; every call but Info, Health and Probe
// carries the id of the config it is about.
//
// The package knows no provider and no host. Errors are of ten neutral kinds
// (Error), sandboxes have five states (State), and what a backend can do beyond
// the core is declared by capability flags (Capability), each of which stands
// for an optional interface. The conformance kit in backendtest checks it all.
package backend

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Backend is the core contract. Implementations are safe for concurrent use,
// return *Error values (see KindOf) or the context's own error, and stop when
// ctx ends. Only Create makes a sandbox and only Connect wakes a paused one:
// no other method creates, wakes or replaces anything.
type Backend interface {
	// Info describes the plugin. It is the same for the life of the process.
	Info(ctx context.Context) (Info, error)
	// Health reports liveness and readiness. It is called every few seconds and
	// must answer fast; being unready is not an error.
	Health(ctx context.Context) (Health, error)

	// OpenConfig makes a named config usable. Opening an id again with equal
	// JSON is a no-op; with other JSON it replaces the config for later calls
	// and leaves sandboxes alone. It makes no sandbox and sweeps nothing.
	OpenConfig(ctx context.Context, id string, config json.RawMessage) error
	// CloseConfig forgets a config and releases its connections. Sandboxes live
	// on: other replicas may own them. Closing an unknown id is a no-op.
	CloseConfig(ctx context.Context, id string) error
	// Probe tests a config that is not open, without side effects: it neither
	// creates nor sweeps nor wakes.
	Probe(ctx context.Context, config json.RawMessage) (ProbeReport, error)

	// Create makes a sandbox. A live sandbox of the same Session in the same
	// config is a KindConflict.
	Create(ctx context.Context, spec CreateSpec) (Sandbox, error)
	// Connect makes a sandbox ready for work, waking it when it is paused or
	// stopped. It refreshes the idle clock.
	Connect(ctx context.Context, ref Ref) (Sandbox, error)
	// Get describes one sandbox without waking it.
	Get(ctx context.Context, ref Ref) (Sandbox, error)
	// List returns every sandbox that matches, all pages, in no particular
	// order. A backend must never return one outside the filter.
	List(ctx context.Context, filter ListFilter) ([]Sandbox, error)
	// Delete ends a sandbox and what it holds. Deleting an absent one is success.
	Delete(ctx context.Context, ref Ref) error

	// Run places inputs and a program, runs the plan's steps and finds what
	// changed. Program failure, timeout and cancellation are results, not
	// errors; an error means that the run could not be carried out. When ctx
	// ends during the run the program is stopped and the result, with reason
	// StopCanceled and whatever existed at that moment, is still returned.
	Run(ctx context.Context, spec RunSpec, io RunIO) (RunResult, error)
	// Exec runs one command to its end with bounded output: maintenance and
	// simple backends' means. Timeout is a result (StopTimeout, exit code -1).
	Exec(ctx context.Context, req ExecRequest) (ExecResult, error)

	// Walk lists files below a directory, depth first in lexical order, without
	// following links, within limits.
	Walk(ctx context.Context, req WalkRequest) (WalkResult, error)
	// ReadFile opens a regular file. The caller closes the reader. Paths are
	// absolute; symbolic links are not followed at the last component, nor out
	// of the sandbox at any.
	ReadFile(ctx context.Context, ref Ref, path string) (io.ReadCloser, Entry, error)
	// WriteFile replaces a regular file atomically where the backend can, with
	// missing parents made. It reads r to its end and returns the new entry,
	// digest included.
	WriteFile(ctx context.Context, ref Ref, path string, opts WriteOptions, r io.Reader) (Entry, error)
	// Stat describes one path, not following a final link.
	Stat(ctx context.Context, ref Ref, path string) (Entry, error)
	// ListDir lists one directory in lexical order.
	ListDir(ctx context.Context, ref Ref, path string) ([]Entry, error)
	// MakeDir makes a directory and its parents. An existing directory is success.
	MakeDir(ctx context.Context, ref Ref, path string) error
	// Remove deletes a file or, with everything below it, a directory. An absent
	// path is success.
	Remove(ctx context.Context, ref Ref, path string) error
}

// Info says what a plugin is. The host compares it with the manifest and
// refuses a plugin whose Name or Version differ or whose Capabilities are more
// than the manifest grants.
type Info struct {
	// Name and Version are those of the manifest.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Capabilities lists flags in no particular order.
	Capabilities []Capability `json:"capabilities,omitempty"`
	// Languages are what programs may be written in, per config default. A
	// config may offer fewer; see ProbeReport.
	Languages []LanguageSupport `json:"languages,omitempty"`
	// StateSchema lists the versions of on-provider state this version can
	// serve, newest first.
	StateSchema []string `json:"state_schema,omitempty"`
	// MaxLimits is the most that a run may ask for; zero members are unbounded.
	MaxLimits Limits `json:"max_limits,omitzero"`
}

// LanguageSupport is one language that a backend can run.
type LanguageSupport struct {
	// ID is the canonical language code, for example "py".
	ID string `json:"id"`
	// Toolchain names what runs it, for the language table: "cpython", "quickjs".
	Toolchain string `json:"toolchain"`
	// Version is for people, for example "3.11.3".
	Version string `json:"version,omitempty"`
	// Missing says why the language cannot run now and what would add it. Empty
	// means that it runs.
	Missing string `json:"missing,omitempty"`
}

// Health is liveness (the call answered at all) and readiness.
type Health struct {
	Ready bool `json:"ready"`
	// Reason explains why it is not ready.
	Reason string `json:"reason,omitempty"`
	// RetryAfter is a hint; zero is none.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// ProbeReport is what Probe found.
type ProbeReport struct {
	// OK is whether sandboxes could be made with this config.
	OK bool `json:"ok"`
	// Detail is one line for the operator, free of secrets.
	Detail string `json:"detail,omitempty"`
	// Languages that would run with this config.
	Languages []LanguageSupport `json:"languages,omitempty"`
}
