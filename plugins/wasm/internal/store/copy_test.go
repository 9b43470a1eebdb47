package store

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// A copy has every file that is there all the while, also one that is replaced meanwhile.
func TestCopyOfWhatIsReplaced(t *testing.T) {
	src, aside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := os.OpenRoot(src)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := copier{ctx: t.Context(), limits: rootfs.NewQuota(rootfs.Limits{}).Limits(), linked: map[node]string{}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		fresh := filepath.Join(aside, "fresh")
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(os.WriteFile(fresh, []byte("y"), 0o600), os.Rename(fresh, filepath.Join(src, "f"))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 1000 {
		// One name at a time: what a listing names is another question.
		into := t.TempDir()
		dst, err := os.OpenRoot(into)
		if err != nil {
			t.Fatal(err)
		}
		to, err := dst.Open(".")
		if err != nil {
			t.Fatal(err)
		}
		c.top, c.entries, c.linked = dst, 0, map[node]string{}
		err = c.entry(dst, from, to, "", "f", 1)
		_, there := dst.Lstat("f")
		_, _ = to.Close(), dst.Close()
		if err != nil || there != nil || c.entries != 1 {
			t.Errorf("%v, %v, %d entries", err, there, c.entries)
			break
		}
	}
	close(stop)
	wg.Wait()
}
