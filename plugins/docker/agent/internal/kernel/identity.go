//go:build linux

package kernel

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// As calls fn as the effective user uid and group gid, without capabilities unless uid is
// 0. The real and saved ids stay 0: they are the way back, and what decides who may signal
// this process. fn does everything in the calling goroutine; it may call As.
//
// It is not setfsuid, which gVisor does not have.
func As(uid, gid int, fn func() error) error {
	runtime.LockOSThread()
	oldUID, oldGID := effective()
	restored := false
	defer func() {
		if restored = become(oldUID, oldGID); restored {
			runtime.UnlockOSThread()
		}
		// Else the thread stays locked and ends with its goroutine.
	}()
	if !become(uid, gid) {
		return fmt.Errorf("cannot act as user %d, group %d: is CAP_SETUID or CAP_SETGID missing?", uid, gid)
	}
	return fn()
}

func effective() (uid, gid int) {
	u, _, _ := unix.RawSyscall(unix.SYS_GETEUID, 0, 0, 0)
	g, _, _ := unix.RawSyscall(unix.SYS_GETEGID, 0, 0, 0)
	return int(u), int(g)
}

// become changes the effective ids of this thread, by way of user 0, who alone may.
func become(uid, gid int) bool {
	const keep = ^uintptr(0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, keep, 0, keep)
	_, _, _ = unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep)
	_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep)
	u, g := effective()
	return u == uid && g == gid
}

// Capabilities of the agent and of nothing else.
const (
	capKill    = 5
	capSetGID  = 6
	capSetUID  = 7
	capSetPCap = 8
	agentCaps  = 1<<capKill | 1<<capSetGID | 1<<capSetUID
	// lastCap is beyond every capability there is or will soon be.
	lastCap = 63
)

// Confine gives up everything but what the agent needs, for every thread and for what it
// will start: the bounding set, ambient capabilities, supplementary groups, new privileges and being traced. It fails unless all of that is so.
func Confine() error {
	if err := allThreads(unix.SYS_SETGROUPS, 0, 0, 0); err != nil {
		return fmt.Errorf("give up supplementary groups: %w", err)
	}
	if err := allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	// Nothing can become inheritable that is not in the bounding set any more.
	if err := setCaps(agentCaps | 1<<capSetPCap); err != nil {
		return fmt.Errorf("keep CAP_KILL, CAP_SETGID, CAP_SETUID and, for now, CAP_SETPCAP: %w", err)
	}
	for c := range lastCap + 1 {
		in, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, uintptr(c), 0)
		if errno != 0 { // there is no such capability, nor any above
			break
		}
		if in == 0 {
			continue
		}
		if err := allThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); err != nil {
			return fmt.Errorf("empty the bounding set: %w", err)
		}
	}
	_ = allThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0) // older kernels have none
	if err := setCaps(agentCaps); err != nil {
		return fmt.Errorf("keep CAP_KILL, CAP_SETGID and CAP_SETUID only: %w", err)
	}
	// After the credentials: changing them resets it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse tracing: %w", err)
	}
	switch f, err := ReadFacts(); {
	case err != nil:
		return err
	case f.Caps != agentCaps || f.Bounding != 0 || !f.NoNewPrivs:
		return fmt.Errorf("capabilities %#x, bounding set %#x, no new privileges %v: the kernel did not do as told", f.Caps, f.Bounding, f.NoNewPrivs)
	}
	return nil
}
