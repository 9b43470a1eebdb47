package plain

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// OpenTerminal starts a program on a terminal of the engine's. Nobody can attach to
// it a second time: closing it ends the program.
func (b *Box) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	if spec.PID != 0 {
		return nil, engine.Errorf(backend.KindUnsupported, op, backend.SubjectTerminal, "pid: without the agent no terminal can be attached to again")
	}
	if spec.User != "" && spec.User != b.User {
		return nil, engine.Errorf(backend.KindUnsupported, op, backend.SubjectTerminal, "user: terminals run as %s", b.User)
	}
	argv := spec.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", `if command -v bash >/dev/null; then exec bash; else exec sh; fi`}
	}
	marker := rand.Text()
	env := map[string]string{"TERM": "xterm-256color"}
	for k, v := range spec.Env {
		env[k] = v
	}
	s, err := b.Engine.Terminal(ctx, engine.Command{
		Container: b.Container, User: b.User, Dir: cmp.Or(spec.Dir, backend.DataDir),
		Argv: append([]string{"/bin/sh", "-c", start, "sh", ""}, argv...), Env: b.environ(env, marker),
	}, cmp.Or(spec.Cols, 80), cmp.Or(spec.Rows, 24))
	if err != nil {
		return nil, b.fail(ctx, op, err)
	}
	b.Others.Add(1)
	return &terminal{b: b, s: s, marker: marker}, nil
}

type terminal struct {
	b      *Box
	s      *engine.TerminalStream
	marker string
	once   sync.Once

	mu     sync.Mutex
	code   int
	exited bool
}

func (t *terminal) Read(p []byte) (int, error) {
	n, err := t.s.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if code, ended := t.s.Exit(ctx); ended {
		t.mu.Lock()
		t.code, t.exited = code, true
		t.mu.Unlock()
		return 0, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

func (t *terminal) Write(p []byte) (int, error) { return t.s.Write(p) }
func (t *terminal) PID() int                    { return 0 }

func (t *terminal) Resize(ctx context.Context, cols, rows int) error {
	return t.b.fail(ctx, "Resize", t.s.Resize(ctx, cols, rows))
}

func (t *terminal) Exit() (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, t.exited
}

func (t *terminal) Close() error {
	t.once.Do(func() {
		_ = t.s.Close()
		_, _ = t.b.kill(context.Background(), t.marker, false) // while it counts: others may run
		t.b.Others.Add(-1)
	})
	return nil
}
