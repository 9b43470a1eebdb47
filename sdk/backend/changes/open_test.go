package changes

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
)

// A file that is replaced all the while is there all the while.
func TestReplacedAllTheWhile(t *testing.T) {
	tr := newTree(t)
	tr.write("f", "x")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			fresh := tr.path("fresh" + strconv.Itoa(i))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := errors.Join(os.WriteFile(fresh, []byte("y"), 0o600), os.Rename(fresh, tr.path("f"))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3000 {
		f, _, err := OpenRegular(tr.root, "f")
		if err != nil {
			t.Errorf("open: %v", err)
			break
		}
		_ = f.Close()
		if d, err := tr.index.Digest(context.Background(), tr.root, "f", 10); err != nil || d.SHA256 == "" {
			t.Errorf("digest: %+v, %v", d, err)
			break
		}
	}
	close(stop)
	wg.Wait()
}
