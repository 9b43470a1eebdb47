//go:build linux

package kernel

import (
	"net"

	"golang.org/x/sys/unix"
)

// Peer returns who is at the other end of a socket, as of when it was connected.
func Peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, failed
}

// KnowsPeers reports whether Peer is right about what a user other than this process's
// has made. gVisor of 2022 answers with who asks.
func KnowsPeers(uid, gid int) bool {
	var pair [2]int
	if err := As(uid, gid, func() (err error) {
		pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		return false
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	cred, err := unix.GetsockoptUcred(pair[0], unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && int(cred.Uid) == uid
}
