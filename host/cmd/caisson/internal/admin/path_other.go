//go:build !linux

package admin

import "path/filepath"

// socketPath is the path of the socket; one that is too long for an address is an
// error of whoever uses it.
func socketPath(dir string) (path string, release func(), err error) {
	return filepath.Join(dir, SocketFile), func() {}, nil
}
