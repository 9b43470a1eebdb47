package sandboxes

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
)

// maxSocketPath is what the address of a unix socket has room for (unix(7)).
const maxSocketPath = 107

// socketDir is the directory on this machine that one container gets, the only one,
// for the agent's socket. Nobody but this user can enter it.
func (b *Backend) socketDir(name string) string { return filepath.Join(b.o.Dir, "s", name) }

var socketDirName = regexp.MustCompile(`^[a-z0-9]{16}$`)

func (b *Backend) makeSocketDir(name string) (string, error) {
	dir := b.socketDir(name)
	if len(filepath.Join(dir, socketName)) > maxSocketPath {
		return "", errors.New("agent: socket: the data directory's path is too long for a socket; use agent: exec")
	}
	abs, err := filepath.Abs(dir)
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return "", errors.New("agent: socket: the data directory cannot be written")
	}
	return abs, nil
}

// removeSocketDir removes what a container had, by its label: a label is text.
func (b *Backend) removeSocketDir(name string) {
	if socketDirName.MatchString(name) {
		_ = os.RemoveAll(b.socketDir(name))
	}
}
