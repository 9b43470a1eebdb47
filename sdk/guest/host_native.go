//go:build !wasip1

package guest

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
)

// Log sends one message to the host's log, which cuts long ones and limits their
// rate. The manifest must grant "log". Natively it prints to standard error.
func Log(level Level, message string) { fmt.Fprintf(os.Stderr, "guest log %d: %s\n", level, message) }

// NowMS returns milliseconds since the Unix epoch. The manifest must grant
// "now_ms". In a module declared deterministic it is constant.
func NowMS() int64 { return time.Now().UnixMilli() }

// Rand fills p with random bytes. The manifest must grant "rand". In a module
// declared deterministic they are zeros.
func Rand(p []byte) { _, _ = rand.Read(p) } // crypto/rand.Read never fails
