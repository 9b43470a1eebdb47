package binding

import (
	"errors"
	"fmt"
	"time"
)

// Errors to branch on, with errors.Is.
var (
	// ErrUnavailable: the store cannot be asked now. Nothing is known and nothing
	// may be concluded. Every such error is an [Error], which says when to retry.
	ErrUnavailable = errors.New("session store is unavailable")
	// ErrSchema: the record is of another version of this program. It is left alone.
	// Every such error is a [SchemaError].
	ErrSchema = errors.New("session record of an unknown version")
	// ErrCorrupt: what is stored cannot be a record of this program, or belongs to
	// another key. It is left alone; an operator has to look.
	ErrCorrupt = errors.New("session record is damaged")
	// ErrLockBusy: somebody else held the lifecycle lock for all of LockWait. The
	// same call may succeed later.
	ErrLockBusy = errors.New("session is being created, replaced or deleted")
	// ErrOwnershipLost: a lock ended, or can no longer be proven to be held, while
	// its holder was at work. The cause of contexts that a lock cancels.
	ErrOwnershipLost = errors.New("ownership of the session was lost")
	// ErrRewindLocked: a rewind holds the session.
	ErrRewindLocked = errors.New("session is being rewound")
	// ErrTurnActive: the session has an open turn.
	ErrTurnActive = errors.New("session has an open turn")
	// ErrWorkActive: the session has live background work.
	ErrWorkActive = errors.New("session has live background work")
	// ErrWorkLimit: the session has as many activities of that kind as allowed.
	ErrWorkLimit = errors.New("session has too many background activities")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("session store is closed")
)

// Reason says why a store is unavailable, for operators and metrics.
type Reason string

const (
	// Down: no connection.
	Down Reason = "down"
	// Slow: no answer within the time allowed.
	Slow Reason = "slow"
	// Auth: the server refused the credentials or the permissions.
	Auth Reason = "auth"
	// ReadOnly: the server is a replica or refuses writes.
	ReadOnly Reason = "readonly"
	// Full: the server has no memory or disk left.
	Full Reason = "full"
	// Refused: any other answer that is an error.
	Refused Reason = "refused"
)

// Error is the error of a store that could not do its work. It is ErrUnavailable.
// Its text is for operators and free of secrets.
type Error struct {
	// Op is what was tried, for example "create".
	Op     string
	Reason Reason
	// RetryAfter is when the same call may succeed, a hint.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("session store: %s: %s: %v", e.Op, e.Reason, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes every Error ErrUnavailable.
func (e *Error) Is(target error) bool { return target == ErrUnavailable }

// SchemaError is a record whose version this program does not know. It is ErrSchema.
type SchemaError struct {
	// Version is what the record says.
	Version string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("session record has version %.20q and this program knows %d; use the program that wrote it or a newer one", e.Version, Version)
}

// Is makes every SchemaError ErrSchema.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// FieldError is an argument that breaks a rule.
type FieldError struct{ Field, Rule string }

func (e *FieldError) Error() string { return e.Field + " " + e.Rule }
