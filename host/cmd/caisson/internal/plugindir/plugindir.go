// Package plugindir replaces a plugin's directory at once.
package plugindir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFiles bounds what one plugin may consist of.
const maxFiles = 10_000

// Replace copies the directory from to beside to, has the copy checked, and puts it in
// the place of to, between two moments of which in one the old version is there and
// in the other the new. Regular files and directories are copied, without write
// permission for others; anything else is refused. On failure nothing has changed.
func Replace(ctx context.Context, from, to string, check func(copied string) error) (err error) {
	parent := filepath.Dir(to)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	// Discovery looks for plugin.yaml one level down: it must not see the copy.
	work, err := os.MkdirTemp(parent, ".install-")
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fresh := filepath.Join(work, "new")
	if err := copyDir(ctx, from, fresh); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := check(fresh); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := exchange(fresh, to, filepath.Join(work, "old")); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

func copyDir(ctx context.Context, from, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o755)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file", name)
		}
		if n++; n > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		return copyFile(root, name, filepath.Join(to, name))
	})
}

func copyFile(root *os.Root, name, to string) (err error) {
	in, err := root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, st.Mode().Perm()&0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// move puts fresh in the place of to where the two cannot be exchanged: for a moment
// neither is there.
func move(fresh, to, old string) error {
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, to); err != nil {
		return errors.Join(err, os.Rename(old, to))
	}
	return nil
}
