package cachedir

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen(t *testing.T) {
	dir := t.TempDir() + "/a/b"
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if Open(dir) == nil {
		t.Error("a directory that others may write to was accepted")
	}
	link := t.TempDir() + "/link"
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if Open(link) == nil {
		t.Error("a link was accepted")
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	held, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cause")
	cancel(cause)
	if _, err := Lock(ctx, path); !errors.Is(err, cause) {
		t.Errorf("waiting for a held lock: %v", err)
	}
	got := make(chan error)
	go func() {
		f, err := Lock(t.Context(), path)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	_ = held.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
	link := t.TempDir() + "/link"
	if err := os.Symlink(path+lockExt, link+lockExt); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), link); err == nil {
		t.Error("a link was followed")
	}
}

func TestReplace(t *testing.T) {
	path := t.TempDir() + "/f"
	for _, s := range []string{"one", "two"} {
		if err := Replace(path, []byte(s)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != s {
			t.Errorf("%q, %v", b, err)
		}
	}
	if Replace(t.TempDir()+"/absent/f", nil) == nil {
		t.Error("a file appeared in a directory that is not there")
	}
}
