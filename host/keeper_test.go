package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// keeper is the plugin of these tests with sandboxes that are files: each version of
// it sees those whose state it lists, as a provider's adapter does.
type keeper struct {
	plugin
	rest
}

// rest is what the tests do not call; it lies below what plugin has.
type (
	rest  struct{ below }
	below struct{ everything }
)

var _ everything = keeper{}

func (k keeper) file(ref backend.Ref) string {
	return filepath.Join(k.dir, "box-"+ref.Config+"-"+ref.ID)
}

func (k keeper) Create(_ context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	sb := backend.Sandbox{
		Ref: backend.Ref{Config: spec.Config, ID: spec.Session}, State: backend.StateRunning,
		Metadata: spec.Metadata, StateSchema: k.script.StateSchema[0],
	}
	b, err := json.Marshal(sb)
	if err != nil {
		return backend.Sandbox{}, err
	}
	return sb, os.WriteFile(k.file(sb.Ref), b, 0o600)
}

func (k keeper) Get(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if k.script.Broken {
		return backend.Sandbox{}, backend.Errorf(backend.KindInternal, "Get", "it is broken")
	}
	var sb backend.Sandbox
	b, err := os.ReadFile(k.file(ref))
	if err == nil {
		err = json.Unmarshal(b, &sb)
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && !k.script.ShowsAll && !slices.Contains(k.script.StateSchema, sb.StateSchema) {
		gone := backend.Errorf(backend.KindNotFound, "Get", "no such sandbox")
		gone.Subject, gone.Plane = backend.SubjectSandbox, backend.PlaneControl
		return backend.Sandbox{}, gone
	}
	if err != nil {
		return backend.Sandbox{}, err
	}
	if sb.Metadata.Labels == nil {
		sb.Metadata.Labels = make(map[string]string)
	}
	sb.Metadata.Labels["version"] = k.script.Version // who answers
	return sb, nil
}

func (k keeper) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return k.Get(ctx, ref)
}

func (k keeper) ConnectToken(ctx context.Context, ref backend.Ref, _ string) (backend.Sandbox, error) {
	return k.Get(ctx, ref)
}

func (k keeper) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	all, err := filepath.Glob(filepath.Join(k.dir, "box-"+f.Config+"-*"))
	if err != nil {
		return nil, err
	}
	var out []backend.Sandbox
	for _, file := range all {
		id := strings.TrimPrefix(filepath.Base(file), "box-"+f.Config+"-")
		if sb, err := k.Get(ctx, backend.Ref{Config: f.Config, ID: id}); err == nil && f.Matches(sb) {
			out = append(out, sb)
		}
	}
	return out, nil
}

func (k keeper) Delete(_ context.Context, ref backend.Ref) error {
	if ref.ID == "crash" {
		os.Exit(3)
	}
	return os.Remove(k.file(ref))
}

// ReadFile reads a file that says whose it is.
func (k keeper) ReadFile(ctx context.Context, ref backend.Ref, path string) (io.ReadCloser, backend.Entry, error) {
	if _, err := k.Get(ctx, ref); err != nil {
		return nil, backend.Entry{}, err
	}
	if path == "/mnt/data/absent" {
		return nil, backend.Entry{}, &backend.Error{Kind: backend.KindNotFound, Op: "ReadFile", Subject: backend.SubjectFile}
	}
	content := ref.ID + path
	return io.NopCloser(strings.NewReader(content)), backend.Entry{Path: path, Type: backend.EntryFile, Size: int64(len(content))}, nil
}

// Run prints its inputs.
func (k keeper) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	if _, err := k.Get(ctx, spec.Ref); err != nil {
		return backend.RunResult{}, err
	}
	var out []string
	for i, in := range spec.Inputs {
		var content io.Reader
		var err error
		switch {
		case in.Chunked:
			content, err = live.Input(i)
		case in.CopyFrom != nil:
			content, _, err = k.ReadFile(ctx, backend.Ref{Config: spec.Config, ID: in.CopyFrom.ID}, in.CopyFrom.Path)
		default:
			content = strings.NewReader(string(in.Inline))
		}
		if err != nil {
			return backend.RunResult{}, err
		}
		b, err := io.ReadAll(content)
		if err != nil {
			return backend.RunResult{}, err
		}
		out = append(out, string(b))
	}
	if err := live.Started(); err != nil {
		return backend.RunResult{}, err
	}
	text := []byte(k.script.Version + ": " + strings.Join(out, " "))
	if err := live.Stdout(text); err != nil {
		return backend.RunResult{}, err
	}
	return backend.RunResult{Stop: backend.StopExit, StdoutBytes: int64(len(text))}, nil
}

// OpenTerminal opens one that says which version serves it, and echoes.
func (k keeper) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	if _, err := k.Get(ctx, spec.Ref); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	t := &echo{PipeReader: r, w: w}
	go fmt.Fprint(w, k.script.Version)
	return t, nil
}

type echo struct {
	*io.PipeReader
	w    *io.PipeWriter
	once sync.Once
}

func (e *echo) Write(p []byte) (int, error) {
	b := slices.Clone(p)
	go e.w.Write(b)
	return len(p), nil
}

func (e *echo) Close() error {
	e.once.Do(func() { e.w.Close(); e.PipeReader.Close() })
	return nil
}
func (e *echo) PID() int                               { return 0 }
func (e *echo) Resize(context.Context, int, int) error { return nil }
func (e *echo) Exit() (int, bool)                      { return 0, false }
