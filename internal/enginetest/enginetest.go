// Package enginetest keeps the tests of several packages out of each other's way on
// the one Docker engine that they share: those that look at which containers there
// are must be alone with it.
package enginetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Remove removes the containers of sessions, which end their names, and returns how
// many there were. It needs the docker command.
func Remove(host string, sessions []string) (removed int, err error) {
	return remove(host, func(name string) bool {
		return slices.ContainsFunc(sessions, func(id string) bool { return strings.HasSuffix(name, "_"+id) })
	})
}

// RemoveNobodys removes the containers that wait for a session, of plugins that were
// killed or had no time to. Whoever calls it holds the engine, so that no other test's
// plugin has any.
func RemoveNobodys(host string) (removed int, err error) {
	return remove(host, func(name string) bool { return strings.HasPrefix(name, "caisson-new_") })
}

func remove(host string, which func(name string) bool) (removed int, err error) {
	docker := func(args ...string) (string, error) {
		out, err := exec.Command("docker", append([]string{"--host", host}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("docker %q: %w: %s", args, err, out)
		}
		return string(out), err
	}
	list, err := docker("ps", "--all", "--format", "{{.Names}}")
	if err != nil {
		return 0, err
	}
	var names []string
	for name := range strings.FieldsSeq(list) {
		if which(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	_, err = docker(append([]string{"rm", "--force", "--volumes"}, names...)...)
	return len(names), err
}

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
