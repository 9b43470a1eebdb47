package packs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// A built pack is made on the operator's own machine, so its digest is nowhere in
// this program. It takes the place of the fetched pack of its name if it lies in a
// directory of that name, below that of the packs, and fits its own description.
// Whoever can write to the directory decides what runs, so that must be the operator
// alone.

// descriptionFile is the name of a built pack's description.
const descriptionFile = "pack.json"

// Bounds of what is read.
const (
	maxDescription = 64 << 10
	maxModule      = 128 << 20
	maxLibrary     = 512 << 20
)

// Built is what the description of a built pack says. It is immutable.
type Built struct {
	// Pack is the name of the pack that it replaces.
	Pack string
	// Version describes the interpreter, such as "CPython 3.11.2, optimised build".
	Version string
	// Licence is the SPDX expression of the interpreter.
	Licence string
	// Exports are the names under which the module exports what its runner needs.
	Exports map[string]string
	// LibraryDir is the guest's directory for the files of OpenLibrary.
	LibraryDir string
	// Digest stands for all of the pack: it is that of the description.
	Digest [sha256.Size]byte

	dir             string
	module, library builtFile
}

// builtFile is a file of the pack as it is described.
type builtFile struct {
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	Directory string `json:"directory,omitempty"`
}

// description is the JSON of descriptionFile.
type description struct {
	Format   int               `json:"format"` // 1
	Pack     string            `json:"pack"`
	Version  string            `json:"version"`
	Licence  string            `json:"licence"`
	Packages map[string]string `json:"packages"` // for people: what it was made of
	Module   builtFile         `json:"module"`
	Library  builtFile         `json:"library"`
	Exports  map[string]string `json:"exports"`
}

// locateBuilt looks for a built pack of a name below dir and verifies its files. It
// returns nil without an error if there is none.
func locateBuilt(dir, name string) (*Built, error) {
	dir = filepath.Join(dir, name)
	f, err := os.Open(filepath.Join(dir, descriptionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var b *Built
	if err == nil {
		b, err = readBuilt(dir, name, f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("the built pack %s is not used: %w", name, err)
	}
	return b, nil
}

// readBuilt reads the description and verifies the other files.
func readBuilt(dir, name string, f *os.File) (*Built, error) {
	if err := private(dir, f); err != nil {
		return nil, fmt.Errorf("%s: %w", descriptionFile, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxDescription+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", descriptionFile, bare(err))
	}
	b, err := parseDescription(text, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", descriptionFile, err)
	}
	b.dir = dir
	if _, err := b.readModule(false); err != nil {
		return nil, err
	}
	l, err := b.OpenLibrary()
	if err != nil {
		return nil, err
	}
	return b, l.Close()
}

// parseDescription reads and checks a description.
func parseDescription(text []byte, name string) (*Built, error) {
	if len(text) > maxDescription {
		return nil, fmt.Errorf("longer than %d bytes", maxDescription)
	}
	var d description
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("no description of a pack: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("no description of a pack: more follows the object")
	}
	switch {
	case d.Format != 1:
		return nil, fmt.Errorf("format: %d is not 1; build the pack again", d.Format)
	case d.Pack != name:
		return nil, fmt.Errorf("pack: %.40q is not %q", d.Pack, name)
	case d.Version == "" || len(d.Version) > 100:
		return nil, errors.New("version: must have 1 to 100 bytes")
	}
	if err := d.Module.check(maxModule); err != nil {
		return nil, fmt.Errorf("module.%w", err)
	}
	if err := d.Library.check(maxLibrary); err != nil {
		return nil, fmt.Errorf("library.%w", err)
	}
	// Elsewhere it would hide the program's own directories.
	if dir := d.Library.Directory; path.Clean(dir) != dir || !strings.HasPrefix(dir, "/usr/local/lib/") {
		return nil, fmt.Errorf("library.directory: %.100q is not below /usr/local/lib", dir)
	}
	return &Built{
		Pack: d.Pack, Version: d.Version, Licence: d.Licence, Exports: d.Exports, LibraryDir: d.Library.Directory,
		Digest: sha256.Sum256(text), module: d.Module, library: d.Library,
	}, nil
}

func (f builtFile) check(limit int64) error {
	if f.File != filepath.Base(f.File) || !filepath.IsLocal(f.File) {
		return fmt.Errorf("file: %.100q is not the name of a file beside the description", f.File)
	}
	if f.Bytes <= 0 || f.Bytes > limit {
		return fmt.Errorf("bytes: %d is not from 1 to %d", f.Bytes, limit)
	}
	if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
		return errors.New("sha256: must be a digest in hex")
	}
	return nil
}

// readModule verifies the module and returns it if keep is set.
func (b *Built) readModule(keep bool) ([]byte, error) {
	f, err := b.open(b.module)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out, err := verify(f, b.module.Bytes, b.module.SHA256, keep)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.module.File, err)
	}
	return out, nil
}

// OpenLibrary verifies the file with the interpreter's own library and opens it. The
// caller closes it when nothing uses it any more.
func (b *Built) OpenLibrary() (*Library, error) {
	f, err := b.open(b.library)
	if err != nil {
		return nil, err
	}
	l, err := func() (*Library, error) {
		if _, err := verify(f, b.library.Bytes, b.library.SHA256, false); err != nil {
			return nil, err
		}
		return newLibrary(f, b.library.Bytes)
	}()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.library.File, errors.Join(err, f.Close()))
	}
	return l, nil
}

func (b *Built) open(file builtFile) (*os.File, error) {
	f, err := os.Open(filepath.Join(b.dir, file.File))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.File, bare(err))
	}
	if err := private(b.dir, f); err != nil {
		return nil, fmt.Errorf("%s: %w", file.File, errors.Join(err, f.Close()))
	}
	return f, nil
}

// private refuses a file of which the directory or the file itself may have been
// written by others than root and this user.
func private(dir string, f *os.File) error {
	d, err := os.Lstat(dir)
	if err != nil {
		return bare(err)
	}
	info, err := f.Stat()
	if err != nil {
		return bare(err)
	}
	if !d.IsDir() || !info.Mode().IsRegular() {
		return errors.New("must be a file in a directory, neither of them a link")
	}
	for _, i := range []fs.FileInfo{d, info} {
		st, ok := i.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() || i.Mode().Perm()&0o022 != 0 {
			return errors.New("it and its directory must be root's or ours and closed to writing by others (chmod go-w)")
		}
	}
	return nil
}
