package process

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare makes cmd execute the open file, in a process group of its own that
// dies with this process, unless it is kept.
func prepare(cmd *exec.Cmd, bin *binary, kept bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if kept {
		cmd.SysProcAttr.Pdeathsig = 0
	}
	if bin.script {
		// The interpreter opens the file again: it has to inherit the descriptor.
		cmd.ExtraFiles = []*os.File{bin.file}
		cmd.Path = "/proc/self/fd/3"
		return
	}
	cmd.Path = "/proc/self/fd/" + strconv.Itoa(int(bin.file.Fd()))
}

// run owns the process from start to end.
//
// The parent-death signal is sent when the thread that started the process
// ends, not the process. So this goroutine keeps its thread until the plugin is
// dead, and lets it wait there.
func (c *child) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	started <- nil
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	// The process is a zombie: until it is reaped nobody else can have its number.
	c.mu.Lock()
	signalGroup(c.pid, syscall.SIGKILL)
	_ = cmd.Wait() // returns at once; a status other than 0 is in the state
	c.state, c.reaped = cmd.ProcessState, true
	c.mu.Unlock()
	close(c.dead)
}

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// wrongOwner says why a file belongs to neither root nor this user: whoever owns
// a file may change it. It is empty when it does.
func wrongOwner(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	if me := os.Geteuid(); st.Uid != 0 && int(st.Uid) != me {
		return fmt.Sprintf("owned by user %d, not by root or the user that runs this (%d)", st.Uid, me)
	}
	return ""
}

// checkPeer makes sure that it is the plugin that listens.
func checkPeer(conn *net.UnixConn, pid int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if int(cred.Pid) != pid || int(cred.Uid) != os.Geteuid() {
		return errors.New("another process than the plugin listens on its socket")
	}
	return nil
}
