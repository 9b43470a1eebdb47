//go:build unix

package meter

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime is the time that the processors have spent on this process, which is
// disturbed less by others than the clock is.
func processTime(time.Time) time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
