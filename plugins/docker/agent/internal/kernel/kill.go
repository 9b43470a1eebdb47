//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Killer ends what runs as a user. It has one thread from the beginning, so that it
// works where no thread can be made any more.
type Killer struct{ jobs chan killing }

type killing struct {
	uid  int
	do   func() error
	done chan error
}

// NewKiller starts a killer, which lives as long as the process.
func NewKiller() *Killer {
	k := &Killer{jobs: make(chan killing)}
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocks: its user id changes
		close(ready)
		for j := range k.jobs {
			j.done <- as(j.uid, j.do)
		}
	}()
	<-ready
	return k
}

// nobody is a user id that no process has.
const nobody = 19999

// as calls do on this thread with the effective user uid. Who may signal a thread is
// decided by its real and saved ids, which therefore are never those of a program: the
// real one is nobody's, so that kill(-1) reaches what uid owns and nothing of user 0, and
// the saved one stays 0, which is the way back.
func as(uid int, do func() error) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, uintptr(uid), 0); errno != 0 {
		return fmt.Errorf("become user %d: %w", uid, errno)
	}
	err := do()
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0); errno != 0 {
		// This thread can do nothing more, and without it the agent cannot keep its word.
		fmt.Fprintf(os.Stderr, "agent: become user 0 again: %v\n", errno)
		os.Exit(1)
	}
	return err
}

func (k *Killer) as(uid int, do func() error) error {
	if uid <= 0 {
		return fmt.Errorf("user %d is not one that programs have", uid)
	}
	done := make(chan error, 1)
	k.jobs <- killing{uid, do, done}
	return <-done
}

// Kill sends SIGKILL to every process of a user, all at the same moment, so that none
// can fork away from it. They may still be there, dying, when it returns.
//
// The signal is sent as that user with no capability: kill(-1) then reaches its
// processes and nobody else's, and the agent, whose other threads are user 0, is not
// reached by what they send.
func (k *Killer) Kill(uid int) error {
	return k.as(uid, func() error {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("kill the processes of user %d: %w", uid, err)
		}
		return nil
	})
}

// KillAll kills until nothing runs as uid, or patience is over. woken, when not nil,
// tells that something was reaped.
func (k *Killer) KillAll(uid int, patience time.Duration, woken <-chan struct{}) error {
	end := time.Now().Add(patience)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if !Alive(uid) {
			return nil
		}
		if err := k.Kill(uid); err != nil {
			return err
		}
		if !Alive(uid) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes of user %d do not die", uid)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-woken:
			t.Stop()
		}
	}
}

// Alive reports whether any process, dead ones that nobody waited for included, has the
// real user id uid.
func Alive(uid int) bool {
	if asksByUser() {
		return priority(uid) == 0
	}
	for _, p := range Processes() {
		if p.UID == uid {
			return true
		}
	}
	return false
}

func priority(uid int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_GETPRIORITY, unix.PRIO_USER, uintptr(uid), 0)
	return errno
}

// asksByUser reports whether the kernel knows which users have processes. gVisor says
// that everybody has.
var asksByUser = sync.OnceValue(func() bool {
	return priority(nobody) == unix.ESRCH && priority(os.Getuid()) == 0
})

// RemoveIPC removes System V shared memory, message queues and semaphores of a user,
// which outlive the processes that made them.
func (k *Killer) RemoveIPC(uid int) {
	for _, kind := range []struct {
		file   string
		remove func(id int)
	}{
		{"shm", func(id int) { _, _, _ = unix.Syscall(unix.SYS_SHMCTL, uintptr(id), unix.IPC_RMID, 0) }},
		{"msg", func(id int) { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, uintptr(id), unix.IPC_RMID, 0) }},
		{"sem", func(id int) { _, _, _ = unix.Syscall6(unix.SYS_SEMCTL, uintptr(id), 0, unix.IPC_RMID, 0, 0, 0) }},
	} {
		var mine []int
		for f := range table("/proc/sysvipc/" + kind.file) {
			owner, creator := ipcOwner(kind.file)
			if len(f) > max(owner, creator) && (f[owner] == strconv.Itoa(uid) || f[creator] == strconv.Itoa(uid)) {
				if id, err := strconv.Atoi(f[1]); err == nil {
					mine = append(mine, id)
				}
			}
		}
		if len(mine) == 0 {
			continue
		}
		_ = k.as(uid, func() error {
			for _, id := range mine {
				kind.remove(id)
			}
			return nil
		})
	}
}

// ipcOwner tells in which columns of a table of /proc/sysvipc the owner and the creator
// are.
func ipcOwner(kind string) (uid, cuid int) {
	switch kind {
	case "shm":
		return 7, 9
	case "msg":
		return 7, 9
	}
	return 4, 6
}
