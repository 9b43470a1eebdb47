package meter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Version changes whenever the result of Rewrite for the same module and Options
// does, and is part of [Options.Key].
const Version = "meter-1"

// Names that belong to the host. A module that imports from ReservedPrefix or
// exports a name that begins with it is refused.
const (
	ReservedPrefix = "caisson.meter"
	// CounterExport is the name under which the fuel counter, a mutable i64 global, is
	// exported. It holds what is left of the fuel that the host has granted, and is
	// negative while a slice is overdrawn.
	CounterExport = ReservedPrefix + ".fuel"
	// SliceModule and SliceName name the import that is appended for the slice
	// callback, a function without parameters and results.
	SliceModule = ReservedPrefix
	SliceName   = "slice"
)

// DefaultSeed is what the counter starts with unless Fuel says otherwise.
const DefaultSeed = 1 << 20

// Options say what Rewrite changes. The zero value changes nothing, but still
// checks the module.
type Options struct {
	// Fuel meters the module. Nil does not.
	Fuel *Fuel
	// DropData takes the active data segments out of the module and returns them in
	// Result.Data, for a host that writes them, or an image of the whole memory,
	// itself. Their offsets must be constants.
	DropData bool
	// Exports are added to those of the module. Their names must be new.
	Exports []Export
	// Custom says which custom sections are kept.
	Custom Custom
	// MaxMemoryPages bounds the memory that the module declares, in pages of 64 KiB:
	// a larger maximum, or none, becomes this. A module that starts with more is
	// refused. Zero changes nothing.
	MaxMemoryPages uint32
	// MaxTableElements does the same for each table that the module declares.
	MaxTableElements uint32
	// Unstable turns imports from wasi_unstable into imports from
	// wasi_snapshot_preview1, with the differences between the two made good in code
	// that is appended.
	Unstable bool
	// Limits bound what is read; zero fields have defaults.
	Limits Limits
}

// Fuel says how a module is metered.
type Fuel struct {
	// Own makes one of the module's own imports the slice callback. If it is nil an
	// import is appended: SliceName from SliceModule.
	Own *Own
	// Seed is what the counter starts with, so that a start function is metered like
	// everything else; zero means DefaultSeed.
	Seed int64
}

// Own names a function the module imports already, by the names it imports it
// with. It is called with constants, and what it returns is dropped. Code of the
// module that calls it still does: the host tells the two apart by the arguments, or
// refills if the counter is below zero and does its other duty in any case.
type Own struct {
	Module, Name string
	// Args are the arguments; parameters beyond them are 0. The parameters must be
	// integers.
	Args []int64
}

// Kind is what an export is of.
type Kind byte

// The kinds of exports.
const (
	Function Kind = kindFunction
	Table    Kind = kindTable
	Memory   Kind = kindMemory
	Global   Kind = kindGlobal
)

// Export gives a name to something of the module, by its index in the module as it
// was given.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Custom is a choice of custom sections. Sections that hold offsets of code, such
// as DWARF, are never kept: code moves.
type Custom byte

// The choices.
const (
	KeepCustom Custom = iota // all
	KeepNames                // the name section, for stack traces
	DropCustom               // none
)

// Key identifies what Rewrite does with these options, for cache keys: it differs
// if the options or the Version do. It is safe as a file name.
func (o Options) Key() string {
	o.Limits = o.Limits.withDefaults()
	text, err := json.Marshal(o)
	if err != nil {
		// There is nothing in Options that JSON cannot express.
		panic("meter: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return Version + "-" + hex.EncodeToString(sum[:12])
}
