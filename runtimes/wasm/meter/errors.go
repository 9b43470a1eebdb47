package meter

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons for which Rewrite refuses. Each error it returns wraps exactly one.
var (
	// ErrMalformed: the bytes are not a module, or say something they may not, such
	// as an index of nothing. Nothing malformed is passed on, because an index just
	// past the end of what a module declares would reach what metering appends.
	ErrMalformed = errors.New("malformed WebAssembly module")
	// ErrUnsupported: the module uses a part of WebAssembly that is not metered.
	ErrUnsupported = errors.New("unsupported WebAssembly feature")
	// ErrReserved: the module uses a name that is kept for the host.
	ErrReserved = errors.New("reserved name")
	// ErrLimit: the module is larger than Limits allow.
	ErrLimit = errors.New("module exceeds a limit")
	// ErrOptions: what Options ask for does not fit the module.
	ErrOptions = errors.New("rewrite option cannot be applied")
)

// Error says why and where a module was refused. It is meant for whoever supplied
// the module and holds nothing about the host.
type Error struct {
	// Reason is one of the Err variables of this package.
	Reason error
	// Section names the section, such as "code"; it is empty when the matter is not
	// one of a section.
	Section string
	// Function is the function's index in the module as it was given, imports
	// included, or -1.
	Function int
	// Offset is the byte offset in the module as it was given, or -1.
	Offset int
	// Detail says what is wrong; an instruction is named as in the text format.
	Detail string
}

// Error returns all of it in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason.Error())
	if e.Section != "" {
		fmt.Fprintf(&b, ": %s section", e.Section)
	}
	if e.Function >= 0 {
		fmt.Fprintf(&b, ", function %d", e.Function)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ", offset %#x", e.Offset)
	}
	b.WriteString(": ")
	b.WriteString(e.Detail)
	return b.String()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// optionError is an error about what the caller asked for.
func optionError(format string, args ...any) *Error {
	return &Error{Reason: ErrOptions, Function: -1, Offset: -1, Detail: fmt.Sprintf(format, args...)}
}
