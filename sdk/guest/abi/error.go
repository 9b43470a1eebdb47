package abi

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/canon"
)

// Codes that the SDK and the host use themselves. A module may use its own: a
// lower-case letter, then up to 63 lower-case letters, digits and underscores.
const (
	// CodeError is for an error without a code of its own.
	CodeError = "error"
	// CodePanic is for a panic in the module's code.
	CodePanic = "panic"
	// CodeUnsupportedOp is for an operation the module does not serve.
	CodeUnsupportedOp = "unsupported_op"
	// CodeBadInput is for a payload the module could not read.
	CodeBadInput = "bad_input"
	// CodeBadConfig is for a configuration the module cannot work with.
	CodeBadConfig = "bad_config"
)

// MaxErrorBytes bounds an encoded error object.
const MaxErrorBytes = 8 << 10

// maxMessageBytes leaves room for escapes and the code within MaxErrorBytes.
const maxMessageBytes = 1 << 10

// Error is the error object of ABI v1. A guest's function may return it to choose
// the code.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// AppendJSON appends the error object to dst. An invalid code becomes CodeError,
// and a long message is cut.
func (e *Error) AppendJSON(dst []byte) []byte {
	code := e.Code
	if !ValidCode(code) {
		code = CodeError
	}
	o := canon.NewObject(dst)
	o.String("code", code)
	o.String("message", cut(e.Message, maxMessageBytes))
	return o.Close()
}

// DecodeError reads an error object strictly. Control characters in the message
// become spaces, so that it can be logged.
func DecodeError(data []byte) (*Error, error) {
	if len(data) > MaxErrorBytes {
		return nil, errors.New("error object is too long")
	}
	var e Error
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "code":
			e.Code = r.String()
			if !ValidCode(e.Code) {
				r.Fail("not a valid code")
			}
		case "message":
			e.Message = r.String()
		default:
			r.Unknown()
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	if e.Code == "" {
		return nil, errors.New("error object has no code")
	}
	e.Message = strings.Map(printable, cut(e.Message, maxMessageBytes))
	return &e, nil
}

// ValidCode reports whether code is a stable machine-readable word.
func ValidCode(code string) bool {
	if code == "" || len(code) > 64 || code[0] < 'a' || code[0] > 'z' {
		return false
	}
	for _, c := range []byte(code) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// AsError returns err as an error object; nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeError, Message: err.Error()}
}

func printable(r rune) rune {
	if r < 0x20 || r == 0x7f {
		return ' '
	}
	return r
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
