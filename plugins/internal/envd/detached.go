package envd

import (
	"context"

	"github.com/caisson-run/caisson/sdk/backend"
)

// What detached runs say is kept here, not in the sandbox, where nothing of it could
// be had again: they are forgotten when the plugin's process ends.

// StartRun implements backend.DetachedRunner.
func (c *Client) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	return c.keeper.StartRun(ctx, spec, live)
}

// AttachRun implements backend.DetachedRunner.
func (c *Client) AttachRun(ctx context.Context, ref backend.Ref, runID string, live backend.RunIO) (backend.RunResult, error) {
	if _, err := c.box(ctx, "AttachRun", ref.ID); err != nil {
		return backend.RunResult{}, err
	}
	return c.keeper.AttachRun(ctx, ref, runID, live)
}

// KillRun implements backend.DetachedRunner.
func (c *Client) KillRun(ctx context.Context, ref backend.Ref, runID string) error {
	if _, err := c.box(ctx, "KillRun", ref.ID); err != nil {
		return err
	}
	return c.keeper.KillRun(ctx, ref, runID)
}
