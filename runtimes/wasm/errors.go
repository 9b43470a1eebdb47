package wasm

import (
	"errors"
	"strconv"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// ErrRefused: a module breaks a rule that is checked before its code runs: an
// import it was not granted, an export it lacks, memory beyond the limit, another
// ABI. The text says which.
var ErrRefused = errors.New("module refused")

// Reason says why a call failed. It is the sentinel to compare with:
//
//	errors.Is(err, wasm.ReasonTimeout)
type Reason string

// Reasons of a [CallError].
const (
	// ReasonTrap: guest code trapped, or ended the instance by itself.
	ReasonTrap Reason = "trap"
	// ReasonTimeout: guest code ran longer than Limits.Timeout (or StartTimeout).
	ReasonTimeout Reason = "timeout"
	// ReasonFuel: guest code used more than Limits.Fuel (or what it may to start).
	// The same call would do so again.
	ReasonFuel Reason = "fuel"
	// ReasonMemory: guest code failed after it was refused memory beyond
	// Limits.MemoryBytes, or alloc refused the input.
	ReasonMemory Reason = "memory"
	// ReasonBadOutput: a pointer or length outside the memory or the limits, or an
	// error object nobody can read.
	ReasonBadOutput Reason = "bad_output"
	// ReasonGuest: the guest replied with an error object; errors.As finds the
	// *GuestError. The instance lives on.
	ReasonGuest Reason = "guest"
	// ReasonBadInput: the input is larger than Limits.InputBytes. No guest code ran.
	ReasonBadInput Reason = "bad_input"
	// ReasonBusy: no instance came free within Limits.Wait or the caller's
	// deadline. No guest code ran.
	ReasonBusy Reason = "busy"
	// ReasonCanceled: the caller's context was canceled before guest code ran.
	ReasonCanceled Reason = "canceled"
	// ReasonClosed: the module was closed before guest code ran.
	ReasonClosed Reason = "closed"
)

// reasons are all reasons, in the order in which statistics count them.
var reasons = [...]Reason{
	ReasonTrap, ReasonTimeout, ReasonFuel, ReasonMemory, ReasonBadOutput, ReasonGuest,
	ReasonBadInput, ReasonBusy, ReasonCanceled, ReasonClosed,
}

// Error implements error.
func (r Reason) Error() string { return string(r) }

// GuestError is an error object that a guest replied with: a stable word and a
// sentence of its own, already bounded and free of control characters.
type GuestError = abi.Error

// CallError says which call failed and why.
type CallError struct {
	// Module is the Spec's name.
	Module string
	// Op is the operation's number; see the Op constants. Zero stands for the start
	// of an instance.
	Op uint32
	// Reason is why.
	Reason Reason
	// Err has the details, for the operator; it may quote the guest.
	Err error
}

// Error implements error. It reads, for example:
//
//	wasm module "limits": admit: timeout: guest code ran longer than 100ms
func (e *CallError) Error() string {
	op := "start"
	if e.Op != 0 {
		op = abi.Op(e.Op).String()
	}
	s := "wasm module " + strconv.Quote(e.Module) + ": " + op + ": " + string(e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the Reason and the details.
func (e *CallError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}
