// Package programmatic keeps programs that ask their caller for tools while they run.
// Nothing is replayed: a program lives from its first request to its end, blocked in its
// calls while the caller answers them (docs/wire.md).
//
//	running ──calls, none further for a moment──▶ suspended (token, ttl)
//	   ▲                                              │ continuation with that token
//	   └──────────────────────────────────────────────┘
//	running ──the program ends──▶ over
//	any     ──canceled, caller gone, ttl, closed──▶ over
//
// A registry owns the goroutine of each of its programs and ends it. It knows nothing of
// HTTP or money, and of a session no more than its id: how a program is run is a function
// that it is given, and what comes of it is of type R. The bodies of requests are read
// here as well (ReadBody), since a token decides whether the rest of one is read.
package programmatic

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a registry.
var (
	// ErrNotFound: there is no such token, not any more, or not for this owner.
	ErrNotFound = errors.New("execution not found or expired")
	// ErrInFlight: the continuation, or another one of the same round, is being answered.
	ErrInFlight = errors.New("a continuation of this execution is being answered")
	// ErrAnswered: the round was answered before, with other results or too long ago to
	// be answered again.
	ErrAnswered = errors.New("this round was answered already")
	// ErrCanceled: the caller canceled the program, or went away.
	ErrCanceled = errors.New("the execution was canceled")
	// ErrExpired: nobody continued the program in time.
	ErrExpired = errors.New("nobody continued the execution in time")
	// ErrOverrun: the program ran longer than its backend should have let it.
	ErrOverrun = errors.New("the execution overran its time")
	// ErrClosed: the registry takes no programs any more and suspends none.
	ErrClosed = errors.New("no execution is begun or suspended any more")
)

// FullError: as many programs live as may.
type FullError struct {
	// Live is how many, of the tenant or in all.
	Live int
}

func (e *FullError) Error() string { return fmt.Sprintf("%d executions are alive", e.Live) }

// ResultError: what a continuation brings does not fit its round.
type ResultError struct {
	// Rule says which result, and what is wrong with it.
	Rule string
}

func (e *ResultError) Error() string { return e.Rule }

// Options of a registry. All are positive.
type Options struct {
	// Programs bounds the programs that live at once, TenantPrograms those of each
	// tenant: suspended ones keep their memory.
	Programs, TenantPrograms int
	// Rounds and Calls bound what one program may ask. Further calls become errors in
	// the program.
	Rounds, Calls int
	// TTL is how long a suspended program waits for its continuation.
	TTL time.Duration
	// Gather closes a round when no further call came for so long, unless the program has
	// a time of its own (Program.Gather), GatherMost when its first call has waited for so
	// long.
	Gather, GatherMost time.Duration
	// Keep is how long the last reply of a program that is over can be had again.
	Keep time.Duration
	// Remember is how long a cancellation waits for the request that it is about.
	Remember time.Duration
	// Token returns a new token, which nobody can guess.
	Token func() (string, error)
}

// Owner is who may continue and cancel a program. Owners are compared.
type Owner struct {
	// Tenant is never empty.
	Tenant string
	// User within Tenant, or else the key that was used; either may be empty.
	User, Key string
}

// Slot is the entitlement to run, which a program has while it does. One goroutine at a
// time uses it.
type Slot interface {
	// Leave gives it back. Further calls do nothing.
	Leave()
}
