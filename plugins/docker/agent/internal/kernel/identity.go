//go:build linux

package kernel

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// As calls fn with the user and the group that the kernel checks for files set to uid and
// gid. fn does everything it does to files in the calling goroutine. fn may call As.
func As(uid, gid int, fn func() error) error {
	runtime.LockOSThread()
	oldUID, oldGID := fsid(unix.SYS_SETFSUID), fsid(unix.SYS_SETFSGID)
	set := func(uid, gid int) bool {
		// The group first, as long as this thread may.
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		return fsid(unix.SYS_SETFSUID) == uid && fsid(unix.SYS_SETFSGID) == gid
	}
	restored := false
	defer func() {
		if restored = set(oldUID, oldGID); restored {
			runtime.UnlockOSThread()
		}
		// Else the thread stays locked and ends with its goroutine.
	}()
	if !set(uid, gid) {
		return fmt.Errorf("cannot act as user %d, group %d: is CAP_SETUID or CAP_SETGID missing?", uid, gid)
	}
	return fn()
}

// fsid returns the calling thread's id; setting an impossible one changes nothing.
func fsid(call uintptr) int {
	id, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0)
	return int(uint32(id))
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
	if err := unix.Setgroups(nil); err != nil {
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
