package hostbackend

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// helperSource is the program of CAISSON_CALL, not ours in Go: so that the protocol is
// spoken by somebody else as well.
//
//go:embed call.py
var helperSource []byte

// control is what programs need to make calls: a directory with a short name, since
// that of a socket must be one.
type control struct {
	dir, helper string
}

// newControl returns nil where programs can make no calls.
func newControl() *control {
	if !canMeasure || strings.ContainsAny(os.TempDir(), " \t\n") {
		return nil
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "cai-")
	if err != nil {
		return nil
	}
	c := &control{dir: dir, helper: filepath.Join(dir, "call")}
	if err := os.WriteFile(c.helper, helperSource, 0o700); err != nil {
		_ = os.RemoveAll(dir)
		return nil
	}
	return c
}

// Listen implements generic.Controller.
func (b *Backend) Listen(_ context.Context, _ backend.Ref, _ string) (net.Listener, string, error) {
	const op = "Run"
	if b.control == nil {
		return nil, "", backend.Errorf(backend.KindUnsupported, op, "control: not on this machine")
	}
	dir, err := os.MkdirTemp(b.control.dir, "") // 0700
	if err != nil {
		return nil, "", backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, "", backend.Errorf(backend.KindInternal, op, "%w", errors.Join(err, os.RemoveAll(dir)))
	}
	return listener{l, dir}, path, nil
}

// listener removes the directory of its socket.
type listener struct {
	net.Listener
	dir string
}

func (l listener) Close() error { return errors.Join(l.Listener.Close(), os.RemoveAll(l.dir)) }

// Helper implements generic.Controller.
func (b *Backend) Helper() string { return b.control.helper }

// Used implements generic.Controller.
func (b *Backend) Used(ref backend.Ref) (time.Duration, error) {
	b.mu.Lock()
	x := b.boxes[ref]
	b.mu.Unlock()
	if x == nil {
		return 0, nil
	}
	return x.used()
}
