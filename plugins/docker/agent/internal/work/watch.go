//go:build linux

package work

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// watchEvery is how often limits are looked at that the kernel does not keep; when it
// takes long, less often.
const watchEvery = 50 * time.Millisecond

// watched is what watching a command found.
type watched struct{ peak atomic.Int64 }

// watch stops a command that exceeds what the kernel does not limit for one user alone:
// processor time and memory of all its processes together, and files. It returns when
// ctx ends.
func (h *Host) watch(ctx context.Context, cancel context.CancelCauseFunc, l *Lease, lim agentwire.Limits, found *watched) {
	total := kernel.MemoryLimit()
	memory := lim.MemoryBytes > 0 && (total == 0 || lim.MemoryBytes < total)
	if lim.CPU == 0 && !memory && lim.DiskBytes == 0 && lim.DiskFiles == 0 {
		return
	}
	for tick := 0; ; tick++ {
		began := time.Now()
		var rss int64
		cpu, _, _ := l.used()
		for _, p := range kernel.Processes() {
			if p.UID == l.UID {
				rss += p.RSS
				cpu += kernel.CPU(p.PID)
			}
		}
		found.peak.Store(max(found.peak.Load(), rss))
		switch {
		case lim.CPU > 0 && cpu >= lim.CPU:
			cancel(&ended{stopCPU, fmt.Sprintf("the limit of %v of processor time is used up", lim.CPU)})
		case memory && rss > lim.MemoryBytes:
			cancel(&ended{stopMemory, fmt.Sprintf("more than %d bytes of memory", lim.MemoryBytes)})
		case tick%5 == 4 && (lim.DiskBytes > 0 || lim.DiskFiles > 0):
			if bytes, n := h.FS.Usage(ctx, files.DataDir); lim.DiskBytes > 0 && bytes > lim.DiskBytes || lim.DiskFiles > 0 && n > lim.DiskFiles {
				cancel(&ended{stopDisk, fmt.Sprintf("%d files with %d bytes are more than the limit", n, bytes)})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(watchEvery, 10*time.Since(began))):
		}
	}
}

// before is what is compared after a command.
type before struct{ oom, pids int64 }

func measure() before { return before{kernel.OOMKills(), kernel.PidsRefused()} }

// explain finds out why a command that ended by itself did so.
func (b before) explain(o *outcome, l *Lease, lim agentwire.Limits) {
	cpu, _, killed := l.used()
	switch {
	case o.stop == stopExit && kernel.OOMKills() > b.oom && (killed > 0 || o.exit.Code == 128+int(unix.SIGKILL)):
		o.stop, o.message = stopMemory, "the memory of the sandbox is used up"
	case o.message == "" && kernel.PidsRefused() > b.pids:
		o.message = "the sandbox reached its limit of processes"
	case o.stop == stopExit && (o.exit.Signal == unix.SIGXFSZ || lim.DiskBytes > 0 && o.exit.Code == 128+int(unix.SIGXFSZ)):
		o.stop, o.failed, o.message = stopDisk, true, "a file grew beyond the limit"
	case o.stop == stopExit && o.exit.Code != 0 && (full(files.DataDir) || full(files.TmpDir)):
		o.stop, o.failed, o.message = stopDisk, true, "the disk of the sandbox is full"
	}
	// The kernel's own limit of one process, where the watch came too late.
	if o.stop == stopExit && o.exit.Signal != 0 && lim.CPU > 0 && cpu >= lim.CPU {
		o.stop, o.message = stopCPU, "the limit of processor time is used up"
	}
}

func full(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Bavail*uint64(st.Bsize) < 64<<10 || st.Files > 0 && st.Ffree == 0)
}
