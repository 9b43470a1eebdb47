// Package language holds what a language table module is asked and what it
// answers.
//
// A language table is a WebAssembly module with ABI v1 (see sdk/guest). It knows
// how a program in some language is started by some toolchain; it knows nothing
// of sandboxes. Which toolchains exist is the backend's business
// (backend.Info.Languages), so a plan is keyed by (language, toolchain).
//
// The JSON forms are frozen as JSON Schema under testdata/schemas.
package language

// Dir is the marker that a backend replaces, inside Step.Argv and Plan.Env
// values, by the absolute path of the run's program directory. It is never
// replaced inside Step.Args, which belong to the caller.
const Dir = "{dir}"

// Table is the answer to "list".
type Table struct {
	Languages []Language `json:"languages"`
}

// Language is one row of a table.
type Language struct {
	// ID is the canonical code, for example "py".
	ID string `json:"id"`
	// Name is for people, for example "Python".
	Name string `json:"name"`
	// Aliases are other accepted spellings, lower case.
	Aliases []string `json:"aliases,omitempty"`
	// Toolchains this table can plan for, best first. Names are shared with
	// backend.Info.Languages, for example "cpython", "quickjs", "gcc".
	Toolchains []string `json:"toolchains"`
	// Advertised languages belong to the published set of the wire; others are
	// legal and listed after it.
	Advertised bool `json:"advertised,omitempty"`
}

// PlanRequest asks how to run one program.
type PlanRequest struct {
	// Language is a canonical id and Toolchain one of its toolchains.
	Language  string `json:"language"`
	Toolchain string `json:"toolchain"`
	// File is a wish for the entry file's name; empty lets the table choose, and a
	// table may ignore a name that its toolchain could not use.
	File string `json:"file,omitempty"`
	// Args is the program's argv[1:], verbatim.
	Args []string `json:"args,omitempty"`
}

// Plan says how a program is run: the steps run in order, each only when the
// one before it exited 0. The last step is the program; those before it build.
type Plan struct {
	// File is the entry file's name, one path segment, placed in the program
	// directory: letters, digits, ".", "_", "+" and "-", starting with none of "."
	// and "-", so that it is never taken for an option or for Dir.
	File string `json:"file"`
	// Steps has at least one element.
	Steps []Step `json:"steps"`
	// Env is added to the program's environment; values may hold Dir.
	Env map[string]string `json:"env,omitempty"`
}

// Step is one command. There is no shell: Argv and Args together are the exact
// argument vector.
type Step struct {
	// Name is for people and usage records: "compile", "run".
	Name string `json:"name"`
	// Argv is the command and the table's own arguments; may hold Dir.
	Argv []string `json:"argv"`
	// Args are the caller's arguments, appended verbatim. Only the last step may
	// have them, so that they never reach a compiler.
	Args []string `json:"args,omitempty"`
}
