//go:build unix && !linux

package region

import (
	"errors"
	"os"
)

const noReserve = 0

func adviseHuge([]byte) {}

// discard makes memory zero. What MADV_DONTNEED means differs between systems.
func discard(b []byte) { wipe(b) }

var errNoMemfd = errors.New("no files in memory on this system")

func memfd() (*os.File, error) { return nil, errNoMemfd }

func seal(*os.File) error { return nil }
