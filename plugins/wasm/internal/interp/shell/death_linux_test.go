package shell

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// parentArg makes this binary run a script that tells the worker's process and does
// not end.
const parentArg = "parent-of-a-worker"

func parent() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "caisson-parent-")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	in, err := New(Config{Command: []string{exe, WorkerArg}, Dir: dir})
	if err != nil {
		return err
	}
	r, err := guest.New(context.Background(), guest.Program{
		Argv: []string{"bash", "-c", "echo on; while :; do sleep 1000; done"}, Stdout: number{in.spare.PID()}, Data: guest.Mount{Root: root},
	}, in.MinMemoryBytes())
	if err != nil {
		return err
	}
	_, err = in.Run(context.Background(), r)
	return fmt.Errorf("the script has ended: %w", err)
}

// number writes that of a worker when a script writes anything.
type number struct{ pid int }

func (n number) Write(b []byte) (int, error) {
	_, err := fmt.Println(n.pid)
	return len(b), err
}

// A worker does not outlive the process that started it, however that ends.
func TestWorkersDieWithTheirParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, parentArg)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatalf("%q, %v", line, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skip("processes cannot be waited for here:", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 10_000)
	for err == unix.EINTR {
		n, err = unix.Poll(poll, 10_000)
	}
	if n != 1 || err != nil {
		t.Errorf("process %d lives on: %v", pid, err)
	}
}
