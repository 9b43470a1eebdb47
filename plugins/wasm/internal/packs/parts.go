package packs

import (
	"fmt"
	"path"
)

// Part is a further file of a pack.
type Part struct {
	// File, SHA256 and Bytes are as in Pack.
	File   string
	SHA256 string
	Bytes  int64
}

// ReadPart returns a file of a pack, the first or a part, by the last element of its
// path. It verifies the very bytes it returns.
func (s *Set) ReadPart(name, file string) ([]byte, error) {
	if err := s.Check(name); err != nil {
		return nil, err
	}
	for _, p := range s.table {
		if p.Name != name {
			continue
		}
		if path.Base(p.File) == file {
			return s.load(p, true)
		}
		for _, part := range p.Parts {
			if path.Base(part.File) == file {
				return s.loadPart(p, part, true)
			}
		}
	}
	return nil, fmt.Errorf("%w: %s has no file %s", ErrMissing, name, file)
}

// verifyParts verifies the further files of p.
func (s *Set) verifyParts(p Pack) error {
	for _, part := range p.Parts {
		if _, err := s.loadPart(p, part, false); err != nil {
			return err
		}
	}
	return nil
}

// loadPart is load for a part of p.
func (s *Set) loadPart(p Pack, part Part, keep bool) ([]byte, error) {
	p.File, p.SHA256, p.Bytes, p.Parts = part.File, part.SHA256, part.Bytes, nil
	return s.load(p, keep)
}
