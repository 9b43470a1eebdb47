package control

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other side of a socket will send nothing more, whatever of
// it has not been read yet.
func hungUp(socket any) bool {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	var shut bool
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		shut = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
	})
	return shut || err != nil
}
