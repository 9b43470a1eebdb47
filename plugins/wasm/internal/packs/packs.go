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
	state map[string]error  // of fetched packs, by name; nil means verified
	built map[string]*Built // in place of fetched packs, by name
	// rejected says why built packs that are there are not used.
	rejected error
}

// Locate looks for every pack of Table below dir, which is plugins/wasm/packs
// or a copy of it with a node_modules directory, and verifies each file found.
// It reads every file once, some 90 MB if all are there. That a pack is missing, damaged or of
// another version is not an error of Locate but of Set.Read for that pack.
//
// A pack that was built on this machine takes the place of the fetched one; see
// [Built].
func Locate(dir string) *Set { return locate(dir, Table()) }

func locate(dir string, table []Pack) *Set {
	s := &Set{dir: dir, table: table, state: map[string]error{}, built: map[string]*Built{}}
	for _, p := range table {
		_, s.state[p.Name] = s.load(p, false)
		b, err := locateBuilt(dir, p.Name)
		s.rejected = errors.Join(s.rejected, err)
		if b != nil {
			s.built[p.Name] = b
		}
	}
	return s
}

// Fetched returns the set without the packs that were built.
func (s *Set) Fetched() *Set {
	return &Set{dir: s.dir, table: s.table, state: s.state}
}

// Built returns the pack of that name that was built, nil if it is a fetched one.
func (s *Set) Built(name string) *Built { return s.built[name] }

// Rejected says, for the operator, why packs that were built are not used; nil if
// there are none of that kind.
func (s *Set) Rejected() error { return s.rejected }

// Packs returns every known pack, found or not.
func (s *Set) Packs() []Pack {
	out := slices.Clone(s.table)
	for i, p := range out {
		out[i] = s.pack(p)
	}
	return out
}

// pack describes what runs under the name of p.
func (s *Set) pack(p Pack) Pack {
	b := s.built[p.Name]
	if b == nil {
		return p
	}
	return Pack{
		Name: p.Name, Version: b.Version, Languages: p.Languages, File: b.module.File,
		SHA256: b.module.SHA256, Bytes: b.module.Bytes, Licence: b.Licence, Core: p.Core,
	}
}

// Check returns nil when the pack was found and verified, else an error that
// wraps ErrMissing and names the command that helps.
func (s *Set) Check(name string) error {
	if s.built[name] != nil {
		return nil
	}
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
	if built := s.built[name]; built != nil {
		b, err := built.readModule(true)
		if err != nil {
			return nil, Pack{}, fmt.Errorf("%w: %s: %w", ErrMissing, name, err)
		}
		return b, s.pack(p), nil
	}
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
	return verify(f, p.Bytes, p.SHA256, keep)
}

// verify compares a file with its size and digest, and returns its content if keep
// is set.
func verify(f *os.File, size int64, sum string, keep bool) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	if !info.Mode().IsRegular() || info.Size() != size {
		return nil, fmt.Errorf("the installed file has %d bytes, the pinned one %d", info.Size(), size)
	}
	h := sha256.New()
	var out []byte
	if keep {
		out = make([]byte, size)
		if _, err := io.ReadFull(f, out); err != nil {
			return nil, fmt.Errorf("cannot be read: %w", bare(err))
		}
		h.Write(out)
	} else if _, err := io.Copy(h, io.LimitReader(f, size+1)); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return nil, fmt.Errorf("the installed file has digest %.12s, the pinned one %.12s", got, sum)
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
