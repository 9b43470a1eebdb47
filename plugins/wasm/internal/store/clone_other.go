//go:build unix && !linux

package store

import (
	"context"
	"errors"
	"os"
)

// cloneFile shares blocks on Linux only.
func cloneFile(_, _ *os.File) error { return errors.ErrUnsupported }

// copyData copies everything, holes included.
func copyData(ctx context.Context, out, in *os.File, size int64) error {
	if err := copyRange(ctx, out, in, 0, size); err != nil {
		return err
	}
	return out.Truncate(size)
}
