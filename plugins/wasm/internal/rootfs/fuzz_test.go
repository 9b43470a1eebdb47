package rootfs

import (
	"context"
	"os"
	"path"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// FuzzOperations lets bytes choose what a guest does. Whatever it is, nothing outside
// is seen or changed, the limits hold, the account is what is there, and everything
// can be removed.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00a\x01b"))
	f.Add([]byte("\x02d\x03../secret\x04x\x05y\x06d/x\x07x"))
	f.Add([]byte("\x02a\x02a/b\x05..\x0aa/b/l\x06a/b/l\x0al\x00l\x01l"))
	f.Fuzz(func(t *testing.T, program []byte) {
		base := t.TempDir()
		inside := base + "/root"
		if os.Mkdir(inside, 0o700) != nil || os.WriteFile(base+"/secret", []byte(secretText), 0o600) != nil {
			t.Fatal("no directory")
		}
		root, err := os.OpenRoot(inside)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		limits := Limits{Bytes: 1000, Entries: 12, Depth: 4, PathBytes: 40, OpenFiles: 4}
		q := NewQuota(limits)
		g, host := New(root, q, Options{}), NewTree(root, q)
		var open []esys.File
		word := func() string {
			n := 0
			for n < len(program) && program[n] >= ' ' && n < 20 {
				n++
			}
			w := string(program[:n])
			program = program[n:]
			return w
		}
		for steps := 0; len(program) > 0 && steps < 200; steps++ {
			op := program[0]
			program = program[1:]
			p := word()
			switch op % 16 {
			case 0, 1:
				flag := []esys.Oflag{esys.O_RDWR | esys.O_CREAT, esys.O_RDONLY, esys.O_WRONLY | esys.O_CREAT | esys.O_EXCL, esys.O_RDWR | esys.O_TRUNC}[op/16%4]
				h, e := g.OpenFile(p, flag, 0o644)
				if e != 0 {
					break
				}
				if len(open) >= limits.OpenFiles {
					t.Fatal("more files are open than may be")
				}
				b := make([]byte, 64)
				if n, e := h.Pread(b, 0); e == 0 && string(b[:n]) == secretText {
					t.Fatal("the secret was read")
				}
				open = append(open, h)
			case 2:
				g.Mkdir(p, 0o700)
			case 3:
				g.Rmdir(p)
			case 4:
				g.Unlink(p)
			case 5:
				g.Symlink(p, path.Base(p)+"l")
			case 6:
				g.Rename(p, path.Base(p)+"r")
			case 7:
				g.Link(p, path.Base(p)+"h")
			case 8:
				g.Chmod(p, 0)
			case 9:
				g.Utimens(p, 1, 1)
			case 10:
				g.Symlink(p, "d/l")
			case 11:
				if len(open) > 0 {
					open[0].Close()
					open = open[1:]
				}
			case 12:
				if len(open) > 0 {
					open[len(open)-1].Pwrite(make([]byte, int(op)*3), int64(len(p))*20)
				}
			case 13:
				if len(open) > 0 {
					open[0].Truncate(int64(len(p)) * int64(op))
				}
			case 14:
				_ = host.MakeDirs(path.Clean("./" + p))
			case 15:
				if c := path.Clean("./" + p); c != "." {
					_ = host.RemoveAll(context.Background(), c)
				}
			}
			if b, e := q.Used(); b > limits.Bytes || e > limits.Entries {
				t.Fatalf("%d bytes and %d entries are more than the limits", b, e)
			}
		}
		for _, h := range open {
			h.Close()
		}
		bytes, entries := q.Used()
		if err := q.Measure(context.Background(), root); err != nil {
			t.Fatal(err)
		}
		if b, e := q.Used(); b != bytes || e != entries {
			t.Fatalf("the account says %d bytes, %d entries; there are %d and %d", bytes, entries, b, e)
		}
		if _, longest, err := extent(root, "."); err != nil || longest > limits.PathBytes+limits.PathBytes {
			t.Fatalf("a path of %d bytes: %v", longest, err)
		}
		if got, err := os.ReadFile(base + "/secret"); err != nil || string(got) != secretText {
			t.Fatalf("the secret is %q, %v", got, err)
		}
		if list, err := os.ReadDir(base); err != nil || len(list) != 2 {
			t.Fatalf("outside there are %v, %v", list, err)
		}
		names, err := os.ReadDir(inside)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range names {
			if err := host.RemoveAll(context.Background(), d.Name()); err != nil {
				t.Fatal(err)
			}
		}
		if b, e := q.Used(); b != 0 || e != 0 {
			t.Fatalf("with everything removed the account says %d bytes, %d entries", b, e)
		}
	})
}
