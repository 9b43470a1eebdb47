package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// socketDir is where one plugin process listens: a directory of its own that
// nobody else can enter.
type socketDir struct{ path string }

// The longest names that os.MkdirTemp and go-plugin choose: a prefix and a
// 32-bit number.
const (
	longestNumber = "4294967295"
	socketName    = "plugin" + longestNumber
)

// Prefixes of socket directories. Those of kept processes lie beside those of other
// programs.
const (
	socketPrefix = "p"
	keptPrefix   = "caisson-k"
)

// maxSocketPath is sun_path less its terminator.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

func makeSocketDir(root, prefix string) (*socketDir, error) {
	if root == "" {
		root = os.TempDir()
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	longest := filepath.Join(root, prefix+longestNumber, socketName)
	if limit := maxSocketPath(); len(longest) > limit {
		return nil, fmt.Errorf("socket directory: sockets below %s would have paths of %d bytes, and the system allows %d: choose a directory with a path of at most %d bytes",
			root, len(longest), limit, limit-(len(longest)-len(root)))
	}
	path, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	return &socketDir{path: path}, nil
}

func (d *socketDir) remove() { _ = os.RemoveAll(d.path) }

// check accepts the address a plugin names only when it is a socket right here:
// otherwise a plugin could have its host connect to any socket of the machine.
func (d *socketDir) check(network, address string) error {
	if network != "unix" {
		return fmt.Errorf("it listens on %q, not on a unix socket", network)
	}
	if filepath.Clean(address) != address || filepath.Dir(address) != d.path {
		return fmt.Errorf("it does not listen in the directory it was given")
	}
	info, err := os.Lstat(address)
	if err != nil {
		return fmt.Errorf("its socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("its socket is no socket")
	}
	return nil
}
