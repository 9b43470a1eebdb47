package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// Serve confines this process, asks what to run, runs it, and says how it ended.
// The process must end when Serve returns; it is of no other use any more.
func Serve() error {
	runtime.GOMAXPROCS(1) // a run has one processor
	requests, err := socket(wire.FDRequests)
	if err != nil {
		return err
	}
	programs, err := socket(wire.FDPrograms)
	if err != nil {
		return err
	}
	unix.CloseOnExec(wire.FDPipes)
	if err := confine(); err != nil {
		return err
	}
	c := &client{conn: requests}
	warmUp()
	a, err := c.ask(wire.Request{Op: wire.OpJob})
	if err != nil {
		return nil // whoever started this is gone, or has no use for it
	}
	job, err := wire.ParseJob(a.Data)
	if err != nil {
		return err
	}
	if err := limits(job.MemoryBytes, job.CPUSeconds); err != nil {
		return err
	}
	s := newShell(c, newPrograms(programs), job)
	code := s.main(context.Background(), job, pipeFile(0), pipeFile(1), pipeFile(wire.FDStderr))
	_, _ = c.ask(wire.Request{Op: wire.OpExit, Size: int64(code)})
	return nil
}

func socket(fd uintptr) (*net.UnixConn, error) {
	f := os.NewFile(fd, "socket")
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w: this is started by the shell only", fd, err)
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("descriptor %d is no socket of the shell", fd)
	}
	return u, nil
}

// pipeFile makes a file of a pipe that was inherited, one whose reads can be
// interrupted.
func pipeFile(fd uintptr) *os.File {
	_ = unix.SetNonblock(int(fd), true)
	return os.NewFile(fd, "stream")
}
