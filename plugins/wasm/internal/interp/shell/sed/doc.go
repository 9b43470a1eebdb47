// Package sed runs sed scripts, in the dialect of GNU. Input is given as readers,
// output as writers and files through functions: the package opens nothing. The
// commands that would run a program are refused.
package sed

import (
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Options vary how a script is read and run.
type Options struct {
	// Quiet is -n: lines are printed only when the script says so.
	Quiet bool
	// Extended selects extended regular expressions.
	Extended bool
	// Separate is -s: each input has line numbers and a last line of its own.
	Separate bool
	// Null is -z: lines end with NUL.
	Null bool
}

// Limits on what a script may hold.
const (
	// MaxScript bounds the source, in bytes.
	MaxScript = 1 << 20
	maxDepth  = 100 // of blocks
)

// Error is a mistake in a script.
type Error struct {
	// Char is its place, counted from 1.
	Char int
	// Text says what is wrong.
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("-e expression #1, char %d: %s", e.Char, e.Text) }

// Script is a parsed script. It is immutable and safe for concurrent use.
type Script struct {
	commands []command
	opt      Options
}

// Files opens the files that scripts name, with "r" and "w".
type Files interface {
	// Read returns the content of a file.
	Read(name string) ([]byte, error)
	// Create truncates a file and returns a writer, which Run does not close.
	Create(name string) (io.Writer, error)
}

// Input is one file to edit.
type Input struct {
	// Name is what the command F prints.
	Name string
	// Open opens it. An error is passed to Failed, and the input left out.
	Open func() (io.ReadCloser, error)
	// Out, if not nil, is where the output of this input goes (-i). It implies
	// Separate.
	Out io.Writer
}

// address selects lines.
type address struct {
	kind   addressKind
	line   int // or first
	step   int
	re     *regexp.Regexp // nil: the last one used
	offset int
}

type addressKind int

const (
	byLine     addressKind = iota + 1
	byStep                 // first~step
	byLast                 // $
	byRegexp               // /re/
	byOffset               // addr,+N
	byMultiple             // addr,~N
	byZero                 // 0,/re/
)

// command is one command with its addresses.
type command struct {
	from, to *address
	not      bool
	name     byte

	text   string // of a, i, c; label; file
	jump   int    // of b, t, T, { and }
	number int    // exit code of q and Q, width of l
	subst  *substitution
	from2  map[rune]rune // of y
}

// substitution is the s command.
type substitution struct {
	re      *regexp.Regexp
	parts   []part
	global  bool
	print   bool
	nth     int
	file    string
	hasFile bool
}

// part is a piece of a replacement: text, or a group, under a change of case.
type part struct {
	text  string
	group int // -1: text
	fold  byte
}

var errQuit = errors.New("quit")
