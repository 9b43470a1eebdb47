//go:build linux

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only user 0 may become others")
	}
}

// ids are those of this thread.
func ids() (users, groups [3]int) {
	users[0], users[1], users[2] = unix.Getresuid()
	groups[0], groups[1], groups[2] = unix.Getresgid()
	return users, groups
}

// What decides who may signal a thread, and trace it, is never a program's.
func TestIdentities(t *testing.T) {
	needRoot(t)
	k := NewKiller()
	for range 2 {
		var users [3]int
		if err := k.as(20001, func() error { users, _ = ids(); return nil }); err != nil {
			t.Fatal(err)
		}
		if users != [3]int{nobody, 20001, 0} {
			t.Errorf("the real, effective and saved users of a killing thread are %v", users)
		}
	}
	if err := k.Kill(0); err == nil {
		t.Error("everything of user 0 was killed, and this goes on")
	}
	failed := errors.New("inside")
	err := As(20001, 20002, func() error {
		if u, g := ids(); u != [3]int{0, 20001, 0} || g != [3]int{0, 20002, 0} {
			t.Errorf("acting as a user the ids are %v and %v", u, g)
		}
		if err := As(20003, 20004, func() error {
			if u, g := ids(); u != [3]int{0, 20003, 0} || g != [3]int{0, 20004, 0} {
				t.Errorf("within it they are %v and %v", u, g)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if u, g := ids(); u != [3]int{0, 20001, 0} || g != [3]int{0, 20002, 0} {
			t.Errorf("after that they are %v and %v", u, g)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("As returns %v", err)
	}
	if u, g := ids(); u != [3]int{} || g != [3]int{} {
		t.Errorf("in the end they are %v and %v", u, g)
	}
}

// The kernel checks files as the user that is acted as.
func TestActing(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := As(20001, 20001, func() error {
		_, err := os.ReadDir(dir)
		return err
	})
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("another user's directory: %v", err)
	}
	for d, mode := range map[string]os.FileMode{dir: 0o777, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm()&0o001 == 0 {
			t.Skipf("%s is closed to others", d)
		}
	}
	name := filepath.Join(dir, "f")
	if err := As(20001, 20002, func() error { return os.WriteFile(name, nil, 0o600) }); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Uid != 20001 || st.Gid != 20002 {
		t.Errorf("the file belongs to %d and %d, %v", st.Uid, st.Gid, err)
	}
}

func TestAlive(t *testing.T) {
	if !Alive(os.Getuid()) || Alive(nobody-1) {
		t.Errorf("user %d has processes: %v; one that has none: %v", os.Getuid(), Alive(os.Getuid()), Alive(nobody-1))
	}
	if p, ok := ReadProcess(os.Getpid()); !ok || p.UID != os.Getuid() || p.RSS == 0 || p.Threads == 0 {
		t.Errorf("this process is %+v, %v", p, ok)
	}
	if CPU(os.Getpid()) < 0 || ProcessCPU(os.Getpid()) <= 0 {
		t.Error("this process used no processor time")
	}
}
