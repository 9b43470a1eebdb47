package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is one of ten neutral error kinds. Adapters map their provider's errors
// to these and invent none.
type Kind string

const (
	// KindNotFound: the subject does not exist.
	KindNotFound Kind = "not_found"
	// KindTerminal: the subject is gone for good.
	KindTerminal Kind = "terminal"
	// KindAuthentication: the provider refused our credentials.
	KindAuthentication Kind = "authentication"
	// KindInvalidRequest: the request is wrong and will stay wrong.
	KindInvalidRequest Kind = "invalid_request"
	// KindUnsupported: this backend or config cannot do it.
	KindUnsupported Kind = "unsupported"
	// KindConflict: it collides with something that exists or runs.
	KindConflict Kind = "conflict"
	// KindCapacity: a quota, rate or size limit; later or elsewhere it may work. With
	// SubjectFile and without a hint of when, it is the sandbox that is full (Full).
	KindCapacity Kind = "capacity"
	// KindTimeout: the provider did not finish in time; it may work again.
	KindTimeout Kind = "timeout"
	// KindUnavailable: the provider or the plugin cannot be reached now.
	KindUnavailable Kind = "unavailable"
	// KindInternal: anything else, ours or theirs.
	KindInternal Kind = "internal"
)

// Kinds lists all ten.
func Kinds() []Kind {
	return []Kind{
		KindNotFound, KindTerminal, KindAuthentication, KindInvalidRequest, KindUnsupported,
		KindConflict, KindCapacity, KindTimeout, KindUnavailable, KindInternal,
	}
}

// Subject is what an error is about. A 404 for a file and a 404 for a sandbox
// mean very different things to whoever holds the binding.
type Subject string

const (
	SubjectSandbox  Subject = "sandbox"
	SubjectFile     Subject = "file"
	SubjectConfig   Subject = "config"
	SubjectTemplate Subject = "template"
	SubjectSnapshot Subject = "snapshot"
	SubjectVolume   Subject = "volume"
	SubjectRun      Subject = "run"
	SubjectTerminal Subject = "terminal"
)

// Plane is which side of a provider answered.
type Plane string

const (
	// PlaneControl is the provider's own knowledge of what exists.
	PlaneControl Plane = "control"
	// PlaneData is a gateway or an agent inside the sandbox. It proves nothing
	// about existence.
	PlaneData Plane = "data"
)

// Error is the error of every Backend method, apart from the context's own.
// Messages reach operators, never callers.
type Error struct {
	Kind Kind
	// Op is the method, for example "Create".
	Op string
	// Provider is the plugin's name, for diagnostics only.
	Provider string
	Subject  Subject
	Plane    Plane
	// Message says what failed and what to do, free of secrets.
	Message string
	// Status is the provider's HTTP status, 0 when there is none.
	Status int
	// RetryAfter is the provider's hint; zero is none.
	RetryAfter time.Duration
	// Cause is the underlying error. Only its text crosses a process boundary.
	Cause error

	// wrapped is the chain of a message that already holds the cause's text.
	wrapped error
}

func (e *Error) Error() string {
	var b strings.Builder
	for _, s := range []string{e.Provider, e.Op} {
		if s != "" {
			b.WriteString(s)
			b.WriteString(": ")
		}
	}
	msg := e.Message
	if msg == "" {
		msg = string(e.Kind)
	}
	b.WriteString(msg)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (status %d)", e.Status)
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error {
	if e.Cause != nil {
		return e.Cause
	}
	return e.wrapped
}

// Is makes errors.Is(err, &Error{Kind: k}) match on the kind alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Op == "" && t.Message == "" && t.Unwrap() == nil
}

// Errorf makes an Error whose message is formatted as by fmt.Errorf; what a %w
// verb wraps stays in the chain.
func Errorf(kind Kind, op, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Op: op, Message: err.Error(), wrapped: err}
}

// KindOf returns the kind of err: that of the first *Error in its chain,
// KindTimeout for a passed deadline, otherwise KindInternal. A cancelled
// context is not a kind; test for it with errors.Is before asking.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	default:
		return KindInternal
	}
}

// ProvesGone reports whether err is proof that a sandbox no longer exists: the
// control plane said not_found or terminal about the sandbox itself. Only then
// may a binding be replaced; every other error preserves it.
func ProvesGone(err error) bool {
	var e *Error
	return errors.As(err, &e) &&
		(e.Kind == KindNotFound || e.Kind == KindTerminal) &&
		e.Subject == SubjectSandbox && e.Plane == PlaneControl
}

// IsNotFound reports whether err says that its subject (any) does not exist.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Kind == KindNotFound || e.Kind == KindTerminal)
}

// Full reports whether err says that a sandbox cannot take a file because it holds as
// much as it may: the same call works once something was removed, and not by waiting.
func Full(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindCapacity && e.Subject == SubjectFile && e.RetryAfter == 0
}

// Retriable reports whether the same call may succeed later.
func Retriable(err error) bool {
	switch KindOf(err) {
	case KindCapacity, KindTimeout, KindUnavailable:
		return true
	default:
		return false
	}
}
