package hostbackend

import (
	"context"

	"github.com/caisson-run/caisson/sdk/backend"
)

// StartRun implements backend.DetachedRunner.
func (b *Backend) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	if _, err := b.awake(ctx, "StartRun", spec.Ref); err != nil {
		return err
	}
	return b.keeper.StartRun(ctx, spec, live)
}

// AttachRun implements backend.DetachedRunner.
func (b *Backend) AttachRun(ctx context.Context, ref backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
	if _, err := b.awake(ctx, "AttachRun", ref); err != nil {
		return backend.RunResult{}, err
	}
	return b.keeper.AttachRun(ctx, ref, id, live)
}

// KillRun implements backend.DetachedRunner.
func (b *Backend) KillRun(ctx context.Context, ref backend.Ref, id string) error {
	if _, err := b.awake(ctx, "KillRun", ref); err != nil {
		return err
	}
	return b.keeper.KillRun(ctx, ref, id)
}
