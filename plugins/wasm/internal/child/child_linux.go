package child

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// own starts the process and waits for its end. The signal that ends it with this
// process is sent when the thread that started it ends, so the goroutine keeps its
// thread until then.
func (p *Process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for {
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(p.cmd.Wait()) // until then nobody else can have its number
}

func (p *Process) kill() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) }
