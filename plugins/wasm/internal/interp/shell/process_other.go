//go:build !linux

package shell

import (
	"context"
	"errors"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

var errSystem = errors.New("scripts run in processes that only Linux can confine well enough")

// Supported says why there are no scripts on this system; nil if there are.
func Supported() error { return errSystem }

// Interpreter cannot be had on this system.
type Interpreter struct{}

// New says why.
func New(Config) (*Interpreter, error) { return nil, errSystem }

func (*Interpreter) MinMemoryBytes() int64       { return 0 }
func (*Interpreter) CacheErr() error             { return nil }
func (*Interpreter) Close(context.Context) error { return nil }

func (*Interpreter) Run(context.Context, *guest.Run) (guest.Result, error) {
	return guest.Result{}, errSystem
}
