package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// confinedArg makes this binary confine itself and say what it can do still.
const confinedArg = "confined"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confinedArg {
		if err := confine(); err != nil {
			fmt.Println("confine:", err)
			os.Exit(1)
		}
		for name, attempt := range attempts {
			if err := attempt(); err == nil {
				fmt.Println("can", name)
			}
		}
		fmt.Println("done")
		return
	}
	goleak.VerifyTestMain(m)
}

// attempts are what a worker must not be able to do, whatever its script made of
// it.
var attempts = map[string]func() error{
	"read a file":    func() error { _, err := os.ReadFile("/etc/passwd"); return err },
	"read itself":    func() error { _, err := os.ReadFile("/proc/self/environ"); return err },
	"list":           func() error { _, err := os.ReadDir("/"); return err },
	"stat":           func() error { _, err := os.Stat("/etc/passwd"); return err },
	"stat a link":    func() error { _, err := os.Lstat("/"); return err },
	"read a link":    func() error { _, err := os.Readlink("/proc/self/exe"); return err },
	"access":         func() error { return unix.Access("/", unix.F_OK) },
	"write":          func() error { return os.WriteFile("/tmp/caisson-confined", nil, 0o600) },
	"make a file":    func() error { return os.WriteFile(pipesDir+"/file", []byte("x"), 0o600) },
	"make a dir":     func() error { return os.Mkdir(pipesDir+"/dir", 0o700) },
	"make a link":    func() error { return os.Symlink("/etc/passwd", pipesDir+"/link") },
	"rename":         func() error { return only(os.Rename("/nonexistent/a", "/nonexistent/b"), syscall.ENOENT) },
	"change dir":     func() error { return os.Chdir("/") },
	"look up a user": func() error { _, err := user.Lookup("root"); return err },
	"connect":        func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return only(err, syscall.ECONNREFUSED) },
	"listen":         func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
	"make a socket":  func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"resolve":        func() error { _, err := net.LookupHost("localhost"); return err },
	"run a program":  func() error { return exec.Command("/bin/true").Run() },
	// These fail in another way where they are not refused, and do no harm.
	"exec": func() error {
		return only(syscall.Exec("/nonexistent", []string{"x"}, nil), syscall.ENOENT)
	},
	"fork": func() error {
		_, _, e := syscall.RawSyscall(syscall.SYS_CLONE, unix.CLONE_SIGHAND, 0, 0)
		return only(errnoOrNil(e), syscall.EINVAL)
	},
	"trace": func() error {
		_, _, e := syscall.RawSyscall(syscall.SYS_PTRACE, 0xffff, 0, 0)
		return only(only(errnoOrNil(e), syscall.EIO), syscall.ESRCH)
	},
	"mount": func() error {
		return only(unix.Mount("none", "/nonexistent", "tmpfs", 0, ""), syscall.ENOENT)
	},
	"know numbers": func() error {
		if os.Getpid() != 0 || syscall.Getppid() != 0 {
			return nil
		}
		return syscall.EPERM
	},
	"signal others":    func() error { return syscall.Kill(parent, 0) },
	"signal a thread":  func() error { return unix.Tgkill(parent, parent, 0) },
	"limit others":     func() error { return unix.Prlimit(parent, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) },
	"get namespaces":   func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"make memory code": func() error { _, err := unix.MemfdCreate("x", 0); return err },
	"raise a limit": func() error {
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxFiles + 1, Max: maxFiles + 1})
	},
}

// parent is the number of the process that started this one, as it was before it was
// hidden.
var parent = syscall.Getppid()

// only takes an error other than the given one for what was expected.
func only(err, success error) error {
	if errors.Is(err, success) {
		return nil
	}
	return err
}

func errnoOrNil(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func TestConfined(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pipes, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	cmd := exec.Command(exe, confinedArg)
	cmd.Env = []string{}
	// 3 to 5 are sockets and a pipe in a real one; 6 are the named pipes.
	cmd.ExtraFiles = []*os.File{pipes, pipes, pipes, pipes}
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) == 0 || lines[len(lines)-1] != "done" {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range lines[:len(lines)-1] {
		// A file in the directory of pipes can be made, and nothing written.
		if l == "can make a file" {
			t.Error(l, "with content")
			continue
		}
		t.Error(l)
	}
	if list, err := filepath.Glob(dir + "/*"); err != nil || len(list) > 1 {
		t.Errorf("%v, %v", list, err)
	}
}
