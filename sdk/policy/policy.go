// Package policy holds what a policy module is asked and what it answers.
//
// A policy is a WebAssembly module with ABI v1 (see sdk/guest). It sees one
// request at a time, decides allow or deny, and may tighten limits. It cannot
// widen anything: the host takes the minimum of what it had and what the policy
// says. A policy that traps, times out or answers something unreadable denies.
//
// The JSON forms are frozen as JSON Schema under testdata/schemas.
package policy

// Request describes a run that is about to happen. A policy receives Code, Args
// and Files only when its manifest lists them under "needs".
type Request struct {
	// Org and User say who asks. User may be empty.
	Org  string `json:"org"`
	User string `json:"user,omitempty"`
	// Via is the credential: "bearer", "service_key" or "internal".
	Via string `json:"via"`
	// Session is the session to continue; empty for a new one.
	Session string `json:"session,omitempty"`
	// Language is the canonical language id, Toolchain what will run it.
	Language  string `json:"language"`
	Toolchain string `json:"toolchain,omitempty"`
	// Config is the named backend config that would run it.
	Config string `json:"config"`
	// Network is "none" or "open", as the sandbox would have it.
	Network string `json:"network"`
	// Limits are the limits in force before this policy.
	Limits Limits `json:"limits"`
	// CodeBytes is the size of the program text in bytes, always present.
	CodeBytes int64 `json:"code_bytes"`
	// Code is the program text; needs "code".
	Code string `json:"code,omitempty"`
	// Args is the program's argv[1:]; needs "args".
	Args []string `json:"args,omitempty"`
	// Files are the input files; needs "files".
	Files []File `json:"files,omitempty"`
}

// File is one input file of a request.
type File struct {
	// Name is the path below /mnt/data.
	Name string `json:"name"`
	// Size is in bytes, -1 when unknown.
	Size int64 `json:"size"`
}

// Limits bound one run. Zero means "no opinion" in a verdict and is never sent
// in a request.
type Limits struct {
	// WallMS is elapsed time in milliseconds.
	WallMS int64 `json:"wall_ms,omitempty"`
	// CPUMS is processor time in milliseconds.
	CPUMS int64 `json:"cpu_ms,omitempty"`
	// MemoryBytes bounds the program's memory.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Processes bounds processes and threads.
	Processes int64 `json:"processes,omitempty"`
	// StdoutBytes and StderrBytes bound kept output.
	StdoutBytes int64 `json:"stdout_bytes,omitempty"`
	StderrBytes int64 `json:"stderr_bytes,omitempty"`
	// ChangedFiles and ChangedFileBytes bound what a run may hand back.
	ChangedFiles     int64 `json:"changed_files,omitempty"`
	ChangedFileBytes int64 `json:"changed_file_bytes,omitempty"`
}

// Decision is what a policy says.
type Decision string

const (
	// Allow lets the request pass, with Limits applied.
	Allow Decision = "allow"
	// Deny stops the chain; Reason is shown to the caller.
	Deny Decision = "deny"
)

// Verdict is a policy's answer. An unknown member makes the verdict invalid,
// and an invalid verdict denies.
type Verdict struct {
	Decision Decision `json:"decision"`
	// Reason is one sentence for the caller, at most MaxReasonBytes and without
	// control characters; required when denying.
	Reason string `json:"reason,omitempty"`
	// Code is a stable machine-readable word, for example "language_not_allowed".
	Code string `json:"code,omitempty"`
	// Limits tighten those of the request; larger values are ignored.
	Limits Limits `json:"limits,omitzero"`
}

// Tighten returns the stricter of l and by, member by member. Zero and negative
// members of by have no effect, so the result is never wider than l.
func (l Limits) Tighten(by Limits) Limits {
	return Limits{
		WallMS:           tighter(l.WallMS, by.WallMS),
		CPUMS:            tighter(l.CPUMS, by.CPUMS),
		MemoryBytes:      tighter(l.MemoryBytes, by.MemoryBytes),
		Processes:        tighter(l.Processes, by.Processes),
		StdoutBytes:      tighter(l.StdoutBytes, by.StdoutBytes),
		StderrBytes:      tighter(l.StderrBytes, by.StderrBytes),
		ChangedFiles:     tighter(l.ChangedFiles, by.ChangedFiles),
		ChangedFileBytes: tighter(l.ChangedFileBytes, by.ChangedFileBytes),
	}
}

// tighter treats 0 in a as "unbounded".
func tighter(a, b int64) int64 {
	if b <= 0 || (a > 0 && a <= b) {
		return a
	}
	return b
}
