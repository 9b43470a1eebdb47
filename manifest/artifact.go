package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
)

// maxModule bounds what ReadArtifact reads into memory, in bytes.
const maxModule = 64 << 20

// Load reads dir/plugin.yaml, as Parse does. Links are followed inside dir and
// never out of it.
func Load(dir string, opts ...Option) (*Manifest, error) {
	data, err := read(dir, FileName, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return Parse(filepath.Join(dir, FileName), data, opts...)
}

// openIn opens a regular file below dir for reading, following no link out of
// dir.
func openIn(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_NONBLOCK, opening a named pipe waits for a writer that may never
	// come.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := regular(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func regular(f *os.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a regular file")}
	}
	return err
}

// Digest reads r to its end and returns the SHA-256 of what it read, in the form
// that a manifest pins: 64 lower-case hexadecimal digits.
func Digest(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// VerifyReader reads r to its end and compares its digest with the manifest's.
// It returns the digest, and a *DigestError if it is not the one that is
// pinned. A manifest that pins nothing accepts anything: refuse such manifests
// with RequireDigest.
func (m *Manifest) VerifyReader(r io.Reader) (digest string, err error) {
	digest, err = Digest(r)
	if err != nil {
		return "", fmt.Errorf("plugin %q: read %s: %w", m.Name, m.Path, err)
	}
	if m.SHA256 != "" && digest != m.SHA256 {
		return digest, &DigestError{m.Name, m.Path, m.SHA256, digest}
	}
	return digest, nil
}

// VerifyFile is VerifyReader for an open regular file. It reads all of it,
// wherever the file's offset is, and leaves the offset alone. Start the program
// through the same descriptor: a path may lead elsewhere by then.
func (m *Manifest) VerifyFile(f *os.File) (digest string, err error) {
	if err := regular(f); err != nil {
		return "", fmt.Errorf("plugin %q: %w", m.Name, err)
	}
	return m.VerifyReader(io.NewSectionReader(f, 0, math.MaxInt64))
}

// OpenArtifact opens the artifact below the plugin's directory, and verifies it
// as VerifyFile does. The caller closes the file.
func (m *Manifest) OpenArtifact(dir string) (*os.File, error) {
	f, err := openIn(dir, m.Path)
	if err != nil {
		return nil, fmt.Errorf("plugin %q: artifact: %w", m.Name, err)
	}
	if _, err := m.VerifyFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadArtifact reads an artifact of at most 64 MiB into memory. What it returns
// is exactly what was verified, whatever happens to the file meanwhile.
func (m *Manifest) ReadArtifact(dir string) ([]byte, error) {
	f, err := openIn(dir, m.Path)
	if err != nil {
		return nil, fmt.Errorf("plugin %q: artifact: %w", m.Name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("larger than %d MiB", maxModule>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %q: read %s: %w", m.Name, m.Path, err)
	}
	if _, err := m.VerifyReader(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return data, nil
}
