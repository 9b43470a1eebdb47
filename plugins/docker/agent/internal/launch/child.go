//go:build linux

package launch

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is the argument that makes the agent's program a launcher.
const Command = "launch"

// socket is where a launcher is told what to start.
const socket = 3

// oomScore makes the kernel, where memory is used up, end programs before the agent.
const oomScore = "800"

// Main is a launcher's life. It returns only by exiting.
func Main() {
	runtime.LockOSThread()
	unix.CloseOnExec(socket)
	spec, fds, err := receive()
	if errors.Is(err, io.EOF) {
		os.Exit(0) // the agent is gone
	}
	var e *Error
	if err != nil {
		e = &Error{"receive", syscall.EINVAL}
	} else {
		e = become(spec, fds)
	}
	// Still here: the agent is told why, and ends the read by our exit.
	b := binary.BigEndian.AppendUint32(nil, uint32(e.Errno))
	_, _ = unix.Write(socket, append(b, e.Stage...))
	os.Exit(127)
}

func receive() (*Spec, []int, error) {
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, err := 0, 0, error(nil)
	for {
		n, oobn, _, _, err = unix.Recvmsg(socket, head[:], oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case err != nil:
		return nil, nil, err
	case n == 0:
		return nil, nil, io.EOF
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		more, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, more...)
	}
	size := binary.BigEndian.Uint32(head[:])
	if n < len(head) || size > maxSpec || len(fds) != 3 {
		return nil, nil, unix.EINVAL
	}
	b := make([]byte, size)
	for read := 0; read < len(b); {
		n, err := unix.Read(socket, b[read:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, nil, err
		case n == 0:
			return nil, nil, io.EOF
		}
		read += max(n, 0)
	}
	spec := new(Spec)
	return spec, fds, spec.decode(b)
}

// become turns this process into the program. It returns only what failed.
func become(s *Spec, fds []int) *Error {
	step := ""
	var failed *Error
	check := func(name string, err error) bool {
		if err == nil || failed != nil {
			return failed == nil
		}
		step = name
		errno := syscall.EINVAL
		errors.As(err, &errno)
		failed = &Error{step, errno}
		return false
	}
	_, err := unix.Setsid()
	check("setsid", err)
	limit := func(name string, which int, n uint64) {
		if n > 0 {
			check(name, unix.Setrlimit(which, &unix.Rlimit{Cur: n, Max: n}))
		}
	}
	check("core limit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
	limit("process limit", unix.RLIMIT_NPROC, s.Processes)
	limit("file limit", unix.RLIMIT_FSIZE, s.FileBytes)
	limit("cpu limit", unix.RLIMIT_CPU, s.CPUSeconds)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0) // not every kernel has it
	for i, fd := range fds {
		check("descriptors", unix.Dup3(fd, i, 0))
	}
	if s.TTY {
		check("terminal", unix.IoctlSetInt(0, unix.TIOCSCTTY, 0))
	}
	unix.Umask(0o002)
	check("groups", unix.Setgroups(nil))
	check("group", raw(unix.SYS_SETRESGID, s.GID))
	check("user", raw(unix.SYS_SETRESUID, s.UID))
	check("capabilities", dropCaps())
	if !check("dir", unix.Chdir(s.Dir)) {
		return failed
	}
	return execute(s)
}

// raw sets three ids of this thread only, which is the one that becomes the program.
func raw(call uintptr, id int) error {
	if _, _, errno := unix.RawSyscall(call, uintptr(id), uintptr(id), uintptr(id)); errno != 0 {
		return errno
	}
	return nil
}

// dropCaps fails unless this thread has given up every capability and can get none.
func dropCaps() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if data != [2]unix.CapUserData{} || nnp != 1 || unix.Geteuid() == 0 || unix.Getuid() == 0 {
		return unix.EPERM
	}
	return nil
}

// execute looks for the command as a shell does, as the user.
func execute(s *Spec) *Error {
	name := s.Argv[0]
	if strings.Contains(name, "/") {
		return execError(syscall.Exec(name, s.Argv, s.Env))
	}
	worst := error(syscall.ENOENT)
	for _, dir := range strings.Split(variable(s.Env, "PATH"), ":") {
		if dir == "" {
			dir = "."
		}
		switch err := syscall.Exec(dir+"/"+name, s.Argv, s.Env); err {
		case syscall.ENOENT, syscall.ENOTDIR:
		case syscall.EACCES:
			worst = err
		default:
			return execError(err)
		}
	}
	return execError(worst)
}

func execError(err error) *Error {
	errno := syscall.EINVAL
	errors.As(err, &errno)
	return &Error{"exec", errno}
}

// variable returns the last value of a variable, which is the one that counts.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
