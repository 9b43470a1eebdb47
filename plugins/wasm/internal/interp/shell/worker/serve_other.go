//go:build !linux

package worker

import "errors"

// Serve says that there are no workers on this system.
func Serve() error { return errors.New("shell workers need Linux") }
