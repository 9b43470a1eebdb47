package admin

import (
	"fmt"
	"os"
	"path/filepath"
)

// socketPath is a path of the socket that fits into an address (108 bytes), however
// deep the directory lies, until release.
func socketPath(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, SocketFile)
	if len(path) < 100 {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketFile), func() { _ = d.Close() }, nil
}
