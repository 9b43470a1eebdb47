package remote

import (
	"context"
	"io"
	"maps"
	"net"

	"github.com/caisson-run/caisson/sdk/backend"
)

// What happens inside a sandbox is the data plane's: here the config is found. The
// data plane asks Locate about sandboxes that it does not know, and when it cannot
// reach one.

// Run implements backend.Backend.
func (b *Backend) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	c, err := b.config("Run", spec.Config)
	if err != nil {
		return backend.RunResult{}, err
	}
	spec.Env = c.env(spec.ID, spec.Env)
	return c.data.Run(ctx, spec, live)
}

// Exec implements backend.Backend.
func (b *Backend) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	c, err := b.config("Exec", req.Config)
	if err != nil {
		return backend.ExecResult{}, err
	}
	req.Env = c.env(req.ID, req.Env)
	return c.data.Exec(ctx, req)
}

// env adds to a program's environment that of its sandbox, where the provider does
// not keep it.
func (c *config) env(id string, env map[string]string) map[string]string {
	if !c.Dialect.ValidID(id) {
		return env
	}
	rec, ok := c.records.find(id)
	if !ok || len(rec.Env) == 0 {
		return env
	}
	all := maps.Clone(rec.Env)
	maps.Copy(all, env)
	return all
}

// Walk implements backend.Backend.
func (b *Backend) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	c, err := b.config("Walk", req.Config)
	if err != nil {
		return backend.WalkResult{}, err
	}
	return c.data.Walk(ctx, req)
}

// ReadFile implements backend.Backend.
func (b *Backend) ReadFile(ctx context.Context, ref backend.Ref, path string) (io.ReadCloser, backend.Entry, error) {
	c, err := b.config("ReadFile", ref.Config)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	return c.data.ReadFile(ctx, ref, path)
}

// WriteFile implements backend.Backend.
func (b *Backend) WriteFile(ctx context.Context, ref backend.Ref, path string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	c, err := b.config("WriteFile", ref.Config)
	if err != nil {
		return backend.Entry{}, err
	}
	return c.data.WriteFile(ctx, ref, path, opts, r)
}

// Stat implements backend.Backend.
func (b *Backend) Stat(ctx context.Context, ref backend.Ref, path string) (backend.Entry, error) {
	c, err := b.config("Stat", ref.Config)
	if err != nil {
		return backend.Entry{}, err
	}
	return c.data.Stat(ctx, ref, path)
}

// ListDir implements backend.Backend.
func (b *Backend) ListDir(ctx context.Context, ref backend.Ref, path string) ([]backend.Entry, error) {
	c, err := b.config("ListDir", ref.Config)
	if err != nil {
		return nil, err
	}
	return c.data.ListDir(ctx, ref, path)
}

// MakeDir implements backend.Backend.
func (b *Backend) MakeDir(ctx context.Context, ref backend.Ref, path string) error {
	c, err := b.config("MakeDir", ref.Config)
	if err != nil {
		return err
	}
	return c.data.MakeDir(ctx, ref, path)
}

// Remove implements backend.Backend.
func (b *Backend) Remove(ctx context.Context, ref backend.Ref, path string) error {
	c, err := b.config("Remove", ref.Config)
	if err != nil {
		return err
	}
	return c.data.Remove(ctx, ref, path)
}

// Watch implements backend.Watcher.
func (b *Backend) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	c, err := b.config("Watch", ref.Config)
	if err != nil {
		return err
	}
	return c.data.Watch(ctx, ref, root, recursive, fn)
}

// StartRun implements backend.DetachedRunner.
func (b *Backend) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	c, err := b.config("StartRun", spec.Config)
	if err != nil {
		return err
	}
	spec.Env = c.env(spec.ID, spec.Env)
	return c.data.StartRun(ctx, spec, live)
}

// AttachRun implements backend.DetachedRunner.
func (b *Backend) AttachRun(ctx context.Context, ref backend.Ref, runID string, live backend.RunIO) (backend.RunResult, error) {
	c, err := b.config("AttachRun", ref.Config)
	if err != nil {
		return backend.RunResult{}, err
	}
	return c.data.AttachRun(ctx, ref, runID, live)
}

// KillRun implements backend.DetachedRunner.
func (b *Backend) KillRun(ctx context.Context, ref backend.Ref, runID string) error {
	c, err := b.config("KillRun", ref.Config)
	if err != nil {
		return err
	}
	return c.data.KillRun(ctx, ref, runID)
}

// OpenTerminal implements backend.TerminalOpener.
func (b *Backend) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	c, err := b.config(op, spec.Config)
	if err != nil {
		return nil, err
	}
	// Traffic wakes sandboxes that were made so; a terminal is no reason to.
	if err := c.running(ctx, op, spec.ID); err != nil {
		return nil, err
	}
	spec.Env = c.env(spec.ID, spec.Env)
	return c.data.OpenTerminal(ctx, spec)
}

// DialPort implements backend.PortDialer.
func (b *Backend) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	const op = "DialPort"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return nil, err
	}
	if port < 1 || port > 65535 {
		return nil, b.fail(op, backend.KindInvalidRequest, "port %d is none between 1 and 65535", port)
	}
	if err := c.running(ctx, op, ref.ID); err != nil {
		return nil, err
	}
	// A sandbox that another process made is known without the token for its ports;
	// connecting to a running one only moves its end away.
	if e, _ := c.data.Endpoint(ref.ID); e.TrafficToken == "" && !c.traits.TokenOnce {
		if _, err := c.wake(ctx, op, ref.ID, "", false); err != nil {
			return nil, err
		}
	}
	return c.data.DialPort(ctx, ref, port)
}

// running fails unless a sandbox of this config runs.
func (c *config) running(ctx context.Context, op, id string) error {
	sb, err := c.get(ctx, op, id)
	if err == nil && sb.State != backend.StateRunning {
		e := c.b.fail(op, backend.KindConflict, "the sandbox is %s: connect to it first", sb.State)
		e.Subject = backend.SubjectSandbox
		return e
	}
	return err
}
