//go:build linux

package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// own does things as the user of the test.
func own() *FS {
	return &FS{UID: os.Geteuid(), GID: os.Getegid(), Programs: func(int) bool { return false }, Slots: make(chan struct{}, 1)}
}

// shared makes a directory in memory, as programs share one.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "caisson-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestRemoveWhileFilled: what somebody goes on filling is given up when the time is over.
func TestRemoveWhileFilled(t *testing.T) {
	for name, remove := range map[string]func(ctx context.Context, f *FS, dir string) error{
		"Remove": func(ctx context.Context, f *FS, dir string) error { return f.Remove(ctx, dir) },
		"Clean": func(ctx context.Context, f *FS, dir string) error {
			d, err := os.Open(filepath.Dir(dir))
			if err != nil {
				return err
			}
			defer d.Close()
			if err := f.cleanIn(ctx, d, os.Geteuid()); err != nil {
				return err
			}
			return ctx.Err() // it may have been over just before the time was
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(shared(t), "filled")
			var fill sync.WaitGroup
			over := make(chan struct{})
			for i := range 4 {
				fill.Go(func() {
					for n := 0; ; n = (n + 1) % 10_000 { // not more than fits
						select {
						case <-over:
							return
						default:
						}
						if err := unix.Mknod(filepath.Join(dir, strconv.Itoa(10_000*i+n)), unix.S_IFREG|0o600, 0); errors.Is(err, unix.ENOENT) {
							_ = os.Mkdir(dir, 0o777)
						}
					}
				})
			}
			defer fill.Wait()
			defer close(over)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			f := own()
			done := make(chan error, 1)
			go func() {
				for { // it may be empty for a moment
					err := remove(ctx, f, dir)
					if err != nil && !errors.Is(err, unix.ENOTEMPTY) {
						done <- err
						return
					}
				}
			}()
			select {
			case err := <-done:
				if !errors.Is(err, context.DeadlineExceeded) || len(f.Slots) > 0 {
					t.Errorf("%v, %d slots are taken", err, len(f.Slots))
				}
			case <-time.After(30 * time.Second):
				t.Error("it goes on for ever")
			}
		})
	}
}

// TestEachEnds: a name for every name that is removed has no end but that of the time.
func TestEachEnds(t *testing.T) {
	dir := shared(t)
	if err := os.WriteFile(filepath.Join(dir, "0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err = each(ctx, d, func(name string) error {
		if n++; n == 10 {
			cancel()
		}
		if n >= 20 {
			return errors.New("it went on")
		}
		return os.Rename(filepath.Join(dir, name), filepath.Join(dir, strconv.Itoa(n)))
	})
	if !errors.Is(err, context.Canceled) || n != 10 {
		t.Errorf("%v after %d names", err, n)
	}
}

// TestSlotTaken: who waits for others to be done may leave.
func TestSlotTaken(t *testing.T) {
	f, dir := own(), shared(t)
	f.Slots <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Remove(ctx, dir) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Remove = %v", err)
	}
	<-f.Slots
	if err := f.Remove(t.Context(), dir); err != nil || len(f.Slots) > 0 {
		t.Errorf("Remove = %v, %d slots are taken", err, len(f.Slots))
	}
}
