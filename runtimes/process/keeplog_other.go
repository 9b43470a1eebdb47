//go:build !linux

package process

import (
	"errors"
	"os"
)

func punch(*os.File, int64) error { return errors.ErrUnsupported }
