package engine

import (
	"context"

	"github.com/docker/docker/api/types/container"
)

// TerminalStream is a command on a terminal: raw bytes both ways.
type TerminalStream struct {
	*Stream
	e  *Engine
	id string
}

// Terminal starts a command on a terminal of a size. ctx bounds the start only.
func (e *Engine) Terminal(ctx context.Context, cmd Command, cols, rows int) (*TerminalStream, error) {
	id, s, err := e.attach(ctx, cmd, true)
	if err != nil {
		return nil, err
	}
	t := &TerminalStream{Stream: s, e: e, id: id}
	// Engines before 25.0 ignore a size at the start, and may not be ready for another
	// yet: the user's terminal sends its size again.
	_ = t.Resize(ctx, cols, rows)
	return t, nil
}

// Resize sets the size of the terminal.
func (t *TerminalStream) Resize(ctx context.Context, cols, rows int) error {
	ctx, cancel := Short(ctx)
	defer cancel()
	return t.e.Client(ctx).ContainerExecResize(ctx, t.id, container.ResizeOptions{Width: uint(cols), Height: uint(rows)})
}

// Exit returns how the command ended, and false while it runs or nobody knows.
func (t *TerminalStream) Exit(ctx context.Context) (int, bool) {
	code, err := t.e.exitOf(ctx, t.id, false)
	return code, err == nil
}
