package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// fullBackend implements every optional part and remembers what it was asked.
type fullBackend struct {
	Backend
	caps []Capability

	mu    sync.Mutex
	asked []string
	term  *pipeTerminal
	port  net.Conn
}

func (b *fullBackend) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprintf(format, args...))
}

func (b *fullBackend) Info(context.Context) (Info, error) {
	return Info{Name: "full", Version: "1", Capabilities: b.caps}, nil
}

func (b *fullBackend) Connect(_ context.Context, ref Ref) (Sandbox, error) {
	b.note("Connect %v", ref)
	return Sandbox{Ref: ref, State: StateRunning}, nil
}

func (b *fullBackend) ConnectToken(_ context.Context, ref Ref, token string) (Sandbox, error) {
	b.note("ConnectToken %v %s", ref, token)
	return Sandbox{Ref: ref, State: StateRunning, Token: token}, nil
}

func (b *fullBackend) KeepAlive(_ context.Context, ref Ref, ttl time.Duration) (time.Time, error) {
	b.note("KeepAlive %v %v", ref, ttl)
	return time.Unix(1_700_000_000, 5).UTC(), nil
}

func (b *fullBackend) Pause(_ context.Context, ref Ref) error {
	b.note("Pause %v", ref)
	return nil
}

func (b *fullBackend) Snapshot(_ context.Context, ref Ref, name string, labels map[string]string) (Snapshot, error) {
	b.note("Snapshot %v %s %v", ref, name, labels)
	return filled[Snapshot](), nil
}

func (b *fullBackend) ListSnapshots(_ context.Context, config string, labels map[string]string) ([]Snapshot, error) {
	b.note("ListSnapshots %s %v", config, labels)
	return many(filled[Snapshot]()), nil
}

func (b *fullBackend) DeleteSnapshot(_ context.Context, config, id string) error {
	b.note("DeleteSnapshot %s %s", config, id)
	return nil
}

func (b *fullBackend) EnsureTemplate(_ context.Context, config string) (Template, error) {
	b.note("EnsureTemplate %s", config)
	return Template{ID: "t", Name: "n", Status: TemplateUntagged, Error: "e"}, nil
}

func (b *fullBackend) ReplaceTemplate(_ context.Context, config string) (Template, error) {
	b.note("ReplaceTemplate %s", config)
	return Template{ID: "t2", Status: TemplateBuilding}, nil
}

func (b *fullBackend) ListTemplates(_ context.Context, config string) ([]Template, error) {
	b.note("ListTemplates %s", config)
	return many(Template{ID: "t", Name: strings.Repeat("n", 500), Status: TemplateFailed}), nil
}

func (b *fullBackend) DeleteSuperseded(_ context.Context, config string, keep []string) error {
	b.note("DeleteSuperseded %s %v", config, keep)
	return nil
}

func (b *fullBackend) EnsureVolume(_ context.Context, config, name string) (Volume, error) {
	b.note("EnsureVolume %s %s", config, name)
	return Volume{Name: name, Created: time.Unix(7, 0).UTC()}, nil
}

func (b *fullBackend) ListVolumes(_ context.Context, config string) ([]Volume, error) {
	b.note("ListVolumes %s", config)
	return many(Volume{Name: strings.Repeat("v", 500)}), nil
}

func (b *fullBackend) DeleteVolume(_ context.Context, config, name string) error {
	b.note("DeleteVolume %s %s", config, name)
	return nil
}

func (b *fullBackend) OpenTerminal(_ context.Context, spec TerminalSpec) (Terminal, error) {
	b.note("OpenTerminal %+v", spec)
	if spec.Cols == 666 {
		return nil, Errorf(KindConflict, "OpenTerminal", "no")
	}
	return b.term, nil
}

func (b *fullBackend) DialPort(_ context.Context, ref Ref, port int) (net.Conn, error) {
	b.note("DialPort %v %d", ref, port)
	if port == 1 {
		return nil, Errorf(KindUnavailable, "DialPort", "refused")
	}
	return b.port, nil
}

func (b *fullBackend) StartRun(_ context.Context, spec DetachedStart, live RunIO) error {
	in, err := live.Input(len(spec.Inputs) - 1)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(in)
	b.note("StartRun %s %v %s", spec.RunID, spec.TTL, content)
	return errors.Join(err, live.Started())
}

func (b *fullBackend) AttachRun(ctx context.Context, ref Ref, runID string, live RunIO) (RunResult, error) {
	b.note("AttachRun %v %s", ref, runID)
	if err := live.Stdout([]byte("kept")); err != nil {
		return RunResult{}, err
	}
	if runID == "endless" {
		<-ctx.Done()
		return RunResult{}, ctx.Err()
	}
	return RunResult{Stop: StopTimeout, ExitCode: -1, Step: 3, StdoutBytes: 9}, nil
}

func (b *fullBackend) KillRun(_ context.Context, ref Ref, runID string) error {
	b.note("KillRun %v %s", ref, runID)
	return nil
}

func (b *fullBackend) Watch(ctx context.Context, ref Ref, root string, recursive bool, fn func(WatchEvent) error) error {
	b.note("Watch %v %s %v", ref, root, recursive)
	for i := 0; ; i++ {
		if err := fn(WatchEvent{Path: fmt.Sprintf("%s/%d", root, i), Op: "write"}); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// many is a listing of several messages.
func many[T any](v T) []T {
	out := make([]T, 5000)
	for i := range out {
		out[i] = v
	}
	return out
}

// pipeTerminal echoes.
type pipeTerminal struct {
	io.Reader
	w      *io.PipeWriter
	mu     sync.Mutex
	sizes  []string
	closed chan struct{}
	once   sync.Once
	ended  bool
}

func newPipeTerminal() *pipeTerminal {
	r, w := io.Pipe()
	return &pipeTerminal{Reader: r, w: w, closed: make(chan struct{})}
}

func (p *pipeTerminal) Write(b []byte) (int, error) {
	if string(b) == "exit\n" {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		return len(b), p.w.Close()
	}
	return p.w.Write(b)
}

func (p *pipeTerminal) PID() int { return 42 }

func (p *pipeTerminal) Resize(_ context.Context, cols, rows int) error {
	if cols == 0 {
		return Errorf(KindInvalidRequest, "Resize", "no columns")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, fmt.Sprint(cols, "x", rows))
	return nil
}

func (p *pipeTerminal) Exit() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 3, p.ended
}

func (p *pipeTerminal) Close() error {
	p.once.Do(func() { close(p.closed); _ = p.w.Close() })
	return nil
}
