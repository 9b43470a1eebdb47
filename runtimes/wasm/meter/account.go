package meter

import (
	"errors"
	"math"
)

// ErrOutOfFuel is what [Account.Refill] returns when the budget is spent.
var ErrOutOfFuel = errors.New("out of fuel")

// UnitsPerSecond is the nominal rate at which fuel stands for processor time. It is
// a constant so that what is limited and reported by it does not depend on the
// machine: a common one executes between 1 and 5 units in a nanosecond.
const UnitsPerSecond = 3_000_000_000

// Counter is the fuel counter of an instance, the global that is exported as
// CounterExport. wazero's api.MutableGlobal is one. A counter may be used while
// code of the instance is in a call to the host, or when none runs.
type Counter interface {
	Get() uint64
	Set(value uint64)
}

// Account keeps the books of one instance: the fuel it was granted, in slices, and
// what it may have in all. It is not for concurrent use; that of one instance is
// used where code of the instance could run.
//
// What is used is exact and does not depend on the size of the slices, and neither
// does the place where the budget ends: a budget is overdrawn by what is charged
// between two looks at the counter, and no more is granted.
type Account struct {
	slice   int64
	budget  int64
	granted int64
}

// NewAccount opens the account of an instance that was made with seed fuel in its
// counter, or has been given as much with Set. The seed is part of the budget. A
// budget of 0 or less is none. Slices are between 1 and 1<<40.
func NewAccount(seed, slice, budget int64) *Account {
	if budget <= 0 {
		budget = math.MaxInt64
	}
	return &Account{slice: min(max(slice, 1), 1<<40), budget: budget, granted: seed}
}

// Used returns the fuel that was used, in units.
func (a *Account) Used(c Counter) int64 { return a.granted - int64(c.Get()) }

// Refill grants the next slice, and more than one if a single charge took more, so
// that the counter is not below zero. It is for the slice callback, which may also
// be called with fuel left, and then grants none. When the budget is spent it
// returns ErrOutOfFuel, and the callback has to end the guest.
func (a *Account) Refill(c Counter) error {
	left := int64(c.Get())
	if left >= 0 {
		return nil
	}
	slices := (-left + a.slice - 1) / a.slice
	grant := min(slices*a.slice, a.budget-a.granted)
	grant = max(grant, 0)
	a.granted += grant
	c.Set(uint64(left + grant))
	if left+grant < 0 {
		return ErrOutOfFuel
	}
	return nil
}
