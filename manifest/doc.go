// Package manifest reads plugin.yaml, the file that says what a plugin is and
// the most it may do: its contract and versions, the artifact and its digest,
// the environment, host functions and capabilities it asks for, its limits, and
// a JSON Schema for what operators may configure.
//
// A manifest is read as hostile input. Parsing is strict (an unknown key, a
// duplicate, a wrong type or a value out of bounds is an error with line and
// column, and all of them are reported at once) and bounded (256 KiB, 8192
// tokens, 32 levels; one document; no anchors, aliases, tags or merge keys, so
// nothing expands). A config schema can reach nothing outside itself.
//
// The package decides nothing about trust and runs nothing: it does not find
// plugins, launch them, call them, or choose default limits. Those belong to
// the host and to its runtimes, which enforce what is declared here. It knows
// capability names only by their spelling; the table of them is sdk/backend's.
//
// A *Manifest is immutable once parsed, and its methods may be called from
// several goroutines.
package manifest
