package interp

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// blockedReader returns a reader whose Read waits until unblock is called.
func blockedReader() (r io.Reader, unblock func()) {
	pr, pw := io.Pipe()
	return pr, func() { _ = pw.Close() }
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

func newQuota(bytes, entries int64, files int) *rootfs.Quota {
	return rootfs.NewQuota(rootfs.Limits{Bytes: bytes, Entries: entries, OpenFiles: files})
}

// native runs a command per iteration, or skips when it is not installed.
func native(b *testing.B, name string, args ...string) {
	b.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		b.Skipf("%s is not installed", name)
	}
	for b.Loop() {
		if err := exec.Command(path, args...).Run(); err != nil {
			b.Fatal(err)
		}
	}
}
