//go:build !unix

package meter

import "time"

func processTime(start time.Time) time.Duration { return time.Since(start) }
