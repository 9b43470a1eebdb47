//go:build linux

package kernel

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allThreads makes a system call on every thread of the process.
func allThreads(call, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(call, a, b, c)
	if errno != 0 {
		return errno
	}
	return nil
}

// setCaps makes mask the permitted and effective capabilities of every thread, and those
// that the agent keeps the inheritable ones. They are inheritable for launchers only, which give them up: with an empty
// bounding set nothing else would leave them any.
func setCaps(mask uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(mask), Permitted: uint32(mask), Inheritable: agentCaps},
		{Effective: uint32(mask >> 32), Permitted: uint32(mask >> 32)},
	}
	err := allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&data)
	return err
}

// Warm makes the runtime own n more threads than it needs now. Where a program has
// used up what the container may have of processes, no thread can be made, and a Go
// program that wants one dies.
func Warm(n int) {
	var ready, done sync.WaitGroup
	leave := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread() // a thread of its own while it waits
			defer runtime.UnlockOSThread()
			ready.Done()
			<-leave
		}()
	}
	ready.Wait()
	close(leave)
	done.Wait()
}
