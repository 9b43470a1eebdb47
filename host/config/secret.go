package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Secret says where a secret is: in an environment variable or in a file.
// Exactly one is set.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

const maxSecret = 64 << 10

// ErrUnset: the variable or file of a secret is absent or empty.
var ErrUnset = errors.New("not set")

// Read returns the secret without the white space around it. lookup is
// os.LookupEnv in a server. An absent or empty secret is ErrUnset, wrapped with
// its source; the value is never part of an error.
func (s Secret) Read(lookup func(string) (string, bool)) (string, error) {
	if s.Env != "" {
		v, _ := lookup(s.Env)
		if v = strings.TrimSpace(v); v == "" {
			return "", fmt.Errorf("environment variable %s: %w", s.Env, ErrUnset)
		}
		return v, nil
	}
	f, err := os.Open(s.File)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("file %s: %w", s.File, ErrUnset)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s: must be a regular file", s.File)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s: others may write it: run chmod go-w", s.File)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("%s: is larger than %d KiB", s.File, maxSecret>>10)
	}
	v := strings.TrimSpace(string(b))
	if v == "" {
		return "", fmt.Errorf("file %s: %w", s.File, ErrUnset)
	}
	return v, nil
}
