// Package guesttest builds guest modules from Go source, for tests: a module that
// is built by the test cannot be older than its source.
package guesttest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles the main package in dir, as seen from the working directory, into
// a reactor module, and returns its bytes. It runs the go command found in PATH,
// whose build cache makes all but the first call quick.
func Build(ctx context.Context, dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "module.wasm")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	// Flags of the test's own build, -race among them, do not fit the guest.
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build guest %s: %w\n%s", dir, err, said.Bytes())
	}
	return os.ReadFile(out)
}
