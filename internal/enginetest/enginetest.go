// Package enginetest keeps the tests of several packages out of each other's way on
// the one Docker engine that they share: those that look at which containers there
// are must be alone with it.
package enginetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Hold waits until nobody else holds the engine at host, and holds it until release
// or the end of the process.
func Hold(host string) (release func(), err error) {
	sum := sha256.Sum256([]byte(host))
	// Not os.TempDir: two test processes must mean the same file.
	path := filepath.Join("/tmp", "caisson-engine-"+hex.EncodeToString(sum[:6])+".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold the engine: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("hold the engine: %w", err)
	}
	return func() { f.Close() }, nil
}
