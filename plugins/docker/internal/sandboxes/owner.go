package sandboxes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// owner is who made a container. The installation is a data directory, which one
// host has to itself, so that hosts that share an engine leave each other's alone;
// the maker is one process of it. A maker that lives holds a lock, so that what a
// dead one left half made can be told from what another is still making.
type owner struct {
	dir          string
	installation string
	maker        string
	lock         *os.File
}

// claim reads the installation's name, making it on the first use, and announces this
// process.
func claim(dir string) (*owner, error) {
	o := &owner{dir: filepath.Join(dir, "makers"), maker: strings.ToLower(rand.Text()[:16])}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, errors.New("the data directory cannot be written")
	}
	file := filepath.Join(dir, "installation")
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		// Two generations may start at once: the first link wins.
		tmp := file + "." + o.maker
		if err := os.WriteFile(tmp, []byte(strings.ToLower(rand.Text()[:20])), 0o600); err != nil {
			return nil, errors.New("the data directory cannot be written")
		}
		_ = os.Link(tmp, file)
		_ = os.Remove(tmp)
		b, err = os.ReadFile(file)
	}
	if err != nil || len(b) < 16 {
		return nil, errors.New("the file that names this installation cannot be read")
	}
	o.installation = string(b)
	o.lock, err = os.OpenFile(filepath.Join(o.dir, o.maker), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.New("the data directory cannot be written")
	}
	if err := tryLock(o.lock); err != nil {
		return nil, errors.Join(fmt.Errorf("lock this process's name: %w", err), o.lock.Close())
	}
	return o, nil
}

// lives reports whether a maker of this installation still runs.
func (o *owner) lives(maker string) bool {
	if maker == o.maker {
		return true
	}
	if maker == "" || maker != filepath.Base(maker) {
		return false
	}
	f, err := os.OpenFile(filepath.Join(o.dir, maker), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) // in doubt it does
	}
	defer f.Close()
	if tryLock(f) != nil {
		return true
	}
	_ = os.Remove(f.Name())
	return false
}

func (o *owner) release() {
	_ = os.Remove(o.lock.Name())
	_ = o.lock.Close()
}
