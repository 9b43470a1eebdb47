package packs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// AddCommand is what brings the core packs, as told to operators; see Pack.Add.
const AddCommand = "make packs"

// ErrMissing says that a pack is not installed or not the pinned one.
var ErrMissing = errors.New("pack missing")

// Set is the result of Locate: which packs are there and which are not. It is
// immutable and safe for concurrent use.
type Set struct {
	dir   string
	table []Pack
	state map[string]error // by name; nil means verified
}

// Locate looks for every pack of Table below dir, which is plugins/wasm/packs
// or a copy of it with a node_modules directory, and verifies each file found.
// It reads every file once, some 60 MB if all are there. That a pack is missing, damaged or of
// another version is not an error of Locate but of Set.Read for that pack.
func Locate(dir string) *Set { return locate(dir, Table()) }

func locate(dir string, table []Pack) *Set {
	s := &Set{dir: dir, table: table, state: map[string]error{}}
	for _, p := range table {
		_, err := s.load(p, false)
		s.state[p.Name] = err
	}
	return s
}

// Packs returns every known pack, found or not.
func (s *Set) Packs() []Pack { return slices.Clone(s.table) }

// Check returns nil when the pack was found and verified, else an error that
// wraps ErrMissing and names the command that helps.
func (s *Set) Check(name string) error {
	err, known := s.state[name]
	if !known {
		return fmt.Errorf("%w: %q is no pack of this version", ErrMissing, name)
	}
	return err
}

// Read returns the pack's file after verifying the very bytes it returns, so
// that a file replaced since Locate is noticed.
func (s *Set) Read(name string) ([]byte, Pack, error) {
	if err := s.Check(name); err != nil {
		return nil, Pack{}, err
	}
	i := slices.IndexFunc(s.table, func(p Pack) bool { return p.Name == name })
	p := s.table[i]
	b, err := s.load(p, true)
	return b, p, err
}

// load verifies the file of p and returns its bytes if keep is set.
func (s *Set) load(p Pack, keep bool) ([]byte, error) {
	b, err := read(filepath.Join(s.dir, filepath.FromSlash(p.Project), "node_modules", filepath.FromSlash(p.File)), p, keep)
	if err == nil && !keep {
		return nil, s.verifyParts(p)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s (npm %s@%s): %w; run %q", ErrMissing, p.Name, p.Package, p.PackageVersion, err, p.Add())
	}
	return b, nil
}

// read is load without the wrapping. Its errors do not name the host's path:
// they are shown to remote callers.
func read(path string, p Pack, keep bool) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("not installed")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", bare(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	if !info.Mode().IsRegular() || info.Size() != p.Bytes {
		return nil, fmt.Errorf("the installed file has %d bytes, the pinned one %d", info.Size(), p.Bytes)
	}
	h := sha256.New()
	var out []byte
	if keep {
		out = make([]byte, p.Bytes)
		if _, err := io.ReadFull(f, out); err != nil {
			return nil, fmt.Errorf("cannot be read: %w", bare(err))
		}
		h.Write(out)
	} else if _, err := io.Copy(h, io.LimitReader(f, p.Bytes+1)); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != p.SHA256 {
		return nil, fmt.Errorf("the installed file has digest %.12s, the pinned one %.12s", got, p.SHA256)
	}
	return out, nil
}

// bare drops the path from an error of package os.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
