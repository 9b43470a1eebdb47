//go:build !linux

package process

import (
	"context"
	"errors"
	"os"
)

// ErrNothingKept says that there is no process to adopt.
var ErrNothingKept = errors.New("no process is kept")

var errLinux = errors.New("only on linux")

// Adopt finds nothing: processes are kept on Linux only.
func Adopt(context.Context, Spec) (*Process, error) { return nil, ErrNothingKept }

// EndKept does nothing: processes are kept on Linux only.
func EndKept(string, func(name string) bool) []string { return nil }

func bootID() (string, error)             { return "", errLinux }
func lockFile(*os.File) error             { return errLinux }
func openRecord(string) (*os.File, error) { return nil, errLinux }
