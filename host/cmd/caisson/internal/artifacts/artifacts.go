// Package artifacts saves files that a program made. Their names are the
// program's own, so nothing is written outside the chosen directory, through a
// link, or over a file that is there already.
package artifacts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Dir is where files are saved.
type Dir struct {
	root *os.Root
	// Force replaces files that exist.
	Force bool
}

// Open makes path when it does not exist. The caller closes the Dir.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root}, nil
}

// Close lets the directory go.
func (d *Dir) Close() error { return d.root.Close() }

// ErrExists: there is a file of that name and Force is not set.
var ErrExists = errors.New("exists already")

// Save writes r to name, a slash-separated relative path, or leaves nothing
// behind. It returns the path of the file.
func (d *Dir) Save(name string, r io.Reader) (_ string, err error) {
	local, err := filepath.Localize(name)
	if err != nil || name == "." {
		return "", fmt.Errorf("%q: not a path below the directory", name)
	}
	if dir := path.Dir(name); dir != "." {
		if err := d.root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return "", bare(err)
		}
	}
	if d.Force {
		if err := d.root.Remove(local); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", bare(err)
		}
	}
	f, err := d.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return "", ErrExists
	}
	if err != nil {
		return "", bare(err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, d.root.Remove(local))
	}
	return filepath.Join(d.root.Name(), local), nil
}

// bare drops the operation and path that the caller names anyway.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
