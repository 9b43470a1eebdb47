package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caisson-run/caisson/runtimes/process"
)

// keptDir is where processes that may outlive the host are written down.
func (h *Host) keptDir() (string, error) {
	dir, err := filepath.Abs(filepath.Join(h.o.DataDir, "reattach"))
	if err != nil {
		return "", fmt.Errorf("directory of kept processes: %w", err)
	}
	return dir, nil
}

// keep says whether a process of f may outlive this host.
func (h *Host) keep(f found) (process.Keep, error) {
	if !h.o.Reattach || f.m.Reattach == 0 {
		return process.Keep{}, nil
	}
	dir, err := h.keptDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return process.Keep{}, fmt.Errorf("plugin %q: reattach: %w", f.m.Name, err)
	}
	return process.Keep{For: f.m.Reattach, Dir: dir}, nil
}

// claimKept lets those of programs adopt whose processes an earlier host kept, and
// ends the processes that none of them would.
func (h *Host) claimKept(programs []*program) error {
	dir, err := h.keptDir()
	if err != nil {
		return err
	}
	for _, p := range programs {
		p.adopts.Store(p.keep.For > 0)
	}
	for _, did := range process.EndKept(dir, func(name string) bool {
		return slices.ContainsFunc(programs, func(p *program) bool { return p.found.m.Name == name && p.keep.For > 0 })
	}) {
		h.log.Warn("left by an earlier host", "what", did)
	}
	return nil
}

// adoptTimeout bounds how long a kept process is waited for before a fresh one is
// started.
const adoptTimeout = 5 * time.Second

// run adopts the process that an earlier host kept, the first time, or starts one.
func (p *program) run(ctx context.Context, spec process.Spec) (*process.Process, error) {
	if p.adopts.CompareAndSwap(true, false) {
		kept := spec
		kept.StartTimeout = min(spec.StartTimeout, adoptTimeout)
		proc, err := process.Adopt(ctx, kept)
		if err == nil {
			return proc, nil
		}
		if !errors.Is(err, process.ErrNothingKept) {
			p.log.Warn("a kept process could not be adopted", "error", err)
		}
	}
	return process.Start(ctx, spec)
}
