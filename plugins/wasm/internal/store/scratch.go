package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// maxScratch bounds how many clean scratch directories are kept.
const maxScratch = 16

// Scratch is what one run needs besides its sandbox: a directory for the program's
// source and an empty /tmp. Close it when the run is over.
type Scratch struct {
	// Entry holds the program; Tmp is what it sees as /tmp.
	Entry, Tmp *os.Root
	// TmpQuota is the account of Tmp, new for each run.
	TmpQuota *rootfs.Quota

	store   *Store
	dir     string
	list    *os.File // Tmp, to look whether it is empty
	program *os.File // the last run's, open
	name    string   // of program
}

// Scratch returns directories that nobody has used, or that nobody could tell from
// such.
func (s *Store) Scratch() (*Scratch, error) {
	s.mu.Lock()
	var c *Scratch
	if n := len(s.scratch); n > 0 {
		c, s.scratch = s.scratch[n-1], s.scratch[:n-1]
	}
	s.mu.Unlock()
	if c == nil {
		var err error
		if c, err = s.newScratch(); err != nil {
			return nil, fmt.Errorf("make a run directory: %w", err)
		}
	}
	c.TmpQuota = rootfs.NewQuota(s.quota)
	return c, nil
}

func (s *Store) newScratch() (_ *Scratch, err error) {
	c := &Scratch{store: s, dir: filepath.Join(s.work, randomName())}
	defer func() {
		if err != nil {
			c.close()
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, err
	}
	for sub, root := range map[string]**os.Root{"entry": &c.Entry, "tmp": &c.Tmp} {
		path := filepath.Join(c.dir, sub)
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		if *root, err = os.OpenRoot(path); err != nil {
			return nil, err
		}
	}
	if c.list, err = c.Tmp.Open("."); err != nil {
		return nil, err
	}
	return c, nil
}

// Program writes the source of the run's one program.
func (c *Scratch) Program(file string, source []byte) error {
	// Writing over what the last run had under the same name, which is nearly always
	// the same, is far cheaper than removing and making a file.
	if c.program != nil && c.name != file {
		c.program.Close()
		c.program = nil
		if err := c.Entry.Remove(c.name); err != nil {
			return err
		}
	}
	if c.program == nil {
		f, err := c.Entry.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		c.program, c.name = f, file
	}
	if _, err := c.program.WriteAt(source, 0); err != nil {
		return err
	}
	return c.program.Truncate(int64(len(source)))
}

// Close gives the directories back. They are used again only when the run changed
// nothing in Tmp, not even a mode or a time; the program cannot change Entry.
func (c *Scratch) Close() error {
	s := c.store
	if c.TmpQuota.Generation() == 0 && c.empty() {
		s.mu.Lock()
		if !s.closed && len(s.scratch) < maxScratch {
			s.scratch = append(s.scratch, c)
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
	}
	c.close()
	return os.RemoveAll(c.dir)
}

// empty looks at Tmp itself: what one program leaves there must never be seen by
// another, even if something wrote there past the account.
func (c *Scratch) empty() bool {
	if _, err := c.list.Seek(0, io.SeekStart); err != nil {
		return false
	}
	_, err := c.list.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

func (c *Scratch) close() {
	if c.list != nil {
		c.list.Close()
	}
	if c.program != nil {
		c.program.Close()
	}
	for _, root := range []*os.Root{c.Entry, c.Tmp} {
		if root != nil {
			root.Close()
		}
	}
}
