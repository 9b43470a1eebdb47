//go:build !linux

package interp

import "time"

// threadCPU is not known here.
func threadCPU() time.Duration { return 0 }
