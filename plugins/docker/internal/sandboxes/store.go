package sandboxes

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// store keeps the records of this machine's sandboxes by the ids of their containers,
// which never come again: what is here is never about another. It is faster than the
// file in the container, and there before that. Losing it costs time only.
type store struct {
	dir string
	mu  sync.Mutex
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.New("the data directory cannot be written")
	}
	return &store{dir: dir}, nil
}

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (s *store) load(container string) (record, bool) {
	if !containerID.MatchString(container) {
		return record{}, false
	}
	b, err := os.ReadFile(filepath.Join(s.dir, container))
	if err != nil {
		return record{}, false
	}
	return decodeRecord(b, container)
}

// save replaces a record at once.
func (s *store) save(r record) error {
	if !containerID.MatchString(r.Container) {
		return errors.New("no id of a container")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tmp := filepath.Join(s.dir, r.Container+".new")
	if err := os.WriteFile(tmp, r.encode(), 0o600); err != nil {
		return errors.New("the record cannot be written")
	}
	if err := os.Rename(tmp, filepath.Join(s.dir, r.Container)); err != nil {
		return errors.New("the record cannot be written")
	}
	return nil
}

func (s *store) forget(container string) {
	if containerID.MatchString(container) {
		_ = os.Remove(filepath.Join(s.dir, container))
	}
}

// all lists the containers that there are records of.
func (s *store) all() []string {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if containerID.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}
