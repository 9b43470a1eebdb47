package procstat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

func TestOfAProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIP: this machine has no /proc")
	}
	// A name that looks like fields of its own.
	odd := filepath.Join(t.TempDir(), "a) S 1 (b")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, odd); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "-test.run", "^TestWait$")
	cmd.Env = append(os.Environ(), waitEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	f, err := Fields(pid)
	if err != nil || len(f) < 20 || f[1] != strconv.Itoa(os.Getpid()) {
		t.Errorf("%q %v, its parent is %d", f, err, os.Getpid())
	}
	mine, err := Started(os.Getpid())
	its, err2 := Started(pid)
	if err != nil || err2 != nil || mine == 0 || its < mine {
		t.Errorf("started at %d %v, this one at %d %v", its, err2, mine, err)
	}
	// It touched that much.
	if n, err := MemoryHigh(pid); err != nil || n < touched || n > 64*touched {
		t.Errorf("%d bytes at most, %v", n, err)
	}
	a, err := os.ReadFile(Executable(pid))
	b, err2 := os.ReadFile(self)
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("the program is another: %v %v", err, err2)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := Fields(pid); err == nil {
		t.Error("a process that is gone has fields")
	}
	if _, err := MemoryHigh(pid); err == nil {
		t.Error("a process that is gone has memory")
	}
}

const (
	waitEnv = "CAISSON_PROCSTAT_WAIT"
	touched = 16 << 20
)

// TestWait is the process that is looked at.
func TestWait(t *testing.T) {
	if os.Getenv(waitEnv) == "" {
		t.Skip("only for TestOfAProcess")
	}
	b := make([]byte, touched)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	if _, err := os.Stdout.Write(b[:1]); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdin.Read(b)
}
