package identity

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SecretFile returns the deployment secret kept in path, making a random one
// (0600) when the file does not exist. A file that others may read or write, or
// that holds less than MinSecret bytes, is refused.
func SecretFile(path string) ([]byte, error) {
	for range 2 {
		b, err := readSecret(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		if err := writeSecret(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return readSecret(path)
}

func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("deployment secret: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("deployment secret: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("deployment secret %s: must be a regular file that only its owner may read (chmod 600), is %v", path, st.Mode())
	}
	if st.Size() > 4096 {
		return nil, fmt.Errorf("deployment secret %s: is %d bytes long, more than 4096", path, st.Size())
	}
	b := make([]byte, st.Size())
	n, err := f.Read(b)
	if err != nil && st.Size() > 0 {
		return nil, fmt.Errorf("deployment secret: %w", err)
	}
	s := strings.TrimSpace(string(b[:n]))
	if len(s) < MinSecret {
		return nil, fmt.Errorf("deployment secret %s: is %d bytes long, need at least %d; delete it to have a new one made (existing session ids then stop working)", path, len(s), MinSecret)
	}
	return []byte(s), nil
}

// writeSecret publishes a complete file under its name or none at all.
func writeSecret(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*")
	if err != nil {
		return fmt.Errorf("deployment secret: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(randomBytes(32)) + "\n")
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Link(tmp.Name(), path) // fails when another process was first
	}
	if err != nil {
		return fmt.Errorf("deployment secret: %w", err)
	}
	return nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}
