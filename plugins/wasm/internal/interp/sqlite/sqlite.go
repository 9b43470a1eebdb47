// Package sqlite is the sqlite3 shell as a program of CPython, which has a current
// SQLite with full-text search, R-trees, JSON and mathematical functions.
//
// The shell reads SQL and dot commands and prints what the shell of SQLite 3.41
// prints, in its modes and with its messages; what it does not know it says so.
package sqlite

import (
	"embed"
	"io/fs"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/cpython"
)

//go:embed lib/*.py
var files embed.FS

// Command is the name of the shell, Program.Argv[0].
const Command = "sqlite3"

// Licence is the SPDX expression of SQLite itself.
const Licence = "blessing"

// Tool is the shell, for [cpython.New].
func Tool() cpython.Tool {
	lib, err := fs.Sub(files, "lib")
	if err != nil {
		panic("sqlite: " + err.Error()) // the name is well-formed
	}
	return cpython.Tool{Command: Command, Module: "_caisson_sqlite", Files: lib}
}
