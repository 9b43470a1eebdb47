package account

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/caisson-run/caisson/sdk/backend"
)

// awake is live for operations that need a running sandbox.
func (a *Account) awake(id string) (*box, error) {
	b, err := a.live(id)
	if err == nil && b.token != "" && a.memory.token(id) != b.token {
		return nil, &backend.Error{Kind: backend.KindAuthentication, Plane: backend.PlaneData, Message: "the token of the sandbox is not known"}
	}
	if err == nil && b.State != backend.StateRunning {
		return nil, &backend.Error{Kind: backend.KindConflict, Subject: backend.SubjectSandbox, Message: "the sandbox is " + string(b.State)}
	}
	return b, err
}

// Exec implements backend.Backend: the command's output is its own name.
func (a *Account) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	return do(ctx, a, "Exec", req.ID, func() (backend.ExecResult, error) {
		if _, err := a.awake(req.ID); err != nil {
			return backend.ExecResult{}, err
		}
		return backend.ExecResult{Stop: backend.StopExit, Stdout: []byte(req.Argv[0])}, nil
	})
}

// Run implements backend.Backend: the program starts and ends.
func (a *Account) Run(ctx context.Context, spec backend.RunSpec, io backend.RunIO) (backend.RunResult, error) {
	return do(ctx, a, "Run", spec.ID, func() (backend.RunResult, error) {
		if _, err := a.awake(spec.ID); err != nil {
			return backend.RunResult{}, err
		}
		return backend.RunResult{Stop: backend.StopExit}, io.Started()
	})
}

// WriteFile implements backend.Backend.
func (a *Account) WriteFile(ctx context.Context, ref backend.Ref, path string, _ backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return backend.Entry{}, err
	}
	return do(ctx, a, "WriteFile", ref.ID, func() (backend.Entry, error) {
		b, err := a.awake(ref.ID)
		if err != nil {
			return backend.Entry{}, err
		}
		b.files[path] = content
		return backend.Entry{Path: path, Type: backend.EntryFile, Size: int64(len(content))}, nil
	})
}

func (a *Account) file(id, path string) (backend.Entry, []byte, error) {
	b, err := a.awake(id)
	if err != nil {
		return backend.Entry{}, nil, err
	}
	content, ok := b.files[path]
	if !ok {
		return backend.Entry{}, nil, &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectFile, Plane: backend.PlaneData}
	}
	return backend.Entry{Path: path, Type: backend.EntryFile, Size: int64(len(content))}, content, nil
}

// ReadFile implements backend.Backend.
func (a *Account) ReadFile(ctx context.Context, ref backend.Ref, path string) (io.ReadCloser, backend.Entry, error) {
	var e backend.Entry
	r, err := do(ctx, a, "ReadFile", ref.ID, func() (io.ReadCloser, error) {
		var content []byte
		var err error
		e, content, err = a.file(ref.ID, path)
		return io.NopCloser(bytes.NewReader(content)), err
	})
	return r, e, err
}

// Stat implements backend.Backend.
func (a *Account) Stat(ctx context.Context, ref backend.Ref, path string) (backend.Entry, error) {
	return do(ctx, a, "Stat", ref.ID, func() (backend.Entry, error) {
		e, _, err := a.file(ref.ID, path)
		return e, err
	})
}

// Walk implements backend.Backend.
func (a *Account) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	return do(ctx, a, "Walk", req.ID, func() (res backend.WalkResult, err error) {
		b, err := a.awake(req.ID)
		if err != nil {
			return res, err
		}
		for _, path := range slices.Sorted(maps.Keys(b.files)) {
			if backend.Within(req.Root, path) {
				res.Entries = append(res.Entries, backend.Entry{Path: path, Type: backend.EntryFile, Size: int64(len(b.files[path]))})
			}
		}
		return res, nil
	})
}

// MakeDir implements backend.Backend.
func (a *Account) MakeDir(ctx context.Context, ref backend.Ref, _ string) error {
	_, err := do(ctx, a, "MakeDir", ref.ID, func() (struct{}, error) {
		_, err := a.awake(ref.ID)
		return struct{}{}, err
	})
	return err
}

// Remove implements backend.Backend.
func (a *Account) Remove(ctx context.Context, ref backend.Ref, path string) error {
	_, err := do(ctx, a, "Remove", ref.ID, func() (struct{}, error) {
		b, err := a.awake(ref.ID)
		if err == nil {
			delete(b.files, path)
		}
		return struct{}{}, err
	})
	return err
}

// OpenTerminal implements backend.TerminalOpener: a terminal at its end.
func (a *Account) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	return do(ctx, a, "OpenTerminal", spec.ID, func() (backend.Terminal, error) {
		_, err := a.awake(spec.ID)
		return terminal{}, err
	})
}

type terminal struct{ backend.Terminal }

func (terminal) Close() error { return nil }
