package sandboxes

import (
	"context"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// OpenTerminal opens a terminal in a running sandbox.
func (b *Backend) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	if spec.Cols < 0 || spec.Rows < 0 || spec.Cols > 10_000 || spec.Rows > 10_000 {
		return nil, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectTerminal, "cols, rows: must be between 0 and 10000")
	}
	if spec.Dir != "" {
		if err := backend.CheckPath(spec.Dir); err != nil {
			return nil, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectTerminal, "dir: %w", err)
		}
	}
	x, cl, err := b.reach(ctx, op, spec.Ref)
	if err != nil {
		return nil, err
	}
	if cl == nil {
		return x.plain().OpenTerminal(ctx, spec)
	}
	spec.Env = x.environ(spec.Env)
	t, err := cl.OpenTerminal(ctx, spec)
	return t, x.fault(ctx, op, err)
}
