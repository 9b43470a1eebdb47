package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestSocketsOfDeadHostsAreRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	living, err := newSockets()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(tmp, socketPrefix+"dead")
	other := filepath.Join(tmp, "something-else")
	target := t.TempDir()
	for _, d := range []string{filepath.Join(dead, "plugin"), other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, filepath.Join(tmp, socketPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	second, err := newSockets()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dead host's directory is still there: %v", err)
	}
	for _, d := range []string{living.dir, second.dir, other, target} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("taken away from the living: %v", err)
		}
	}
	for _, s := range []*sockets{living, second} {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// Hosts that start at once do not take each other's directories for those of dead ones.
func TestSocketsOfManyHosts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s, err := newSockets()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(s.dir); err != nil {
					t.Error(err)
				}
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
