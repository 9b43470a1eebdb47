package worker

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// pipesDir is the directory of named pipes as a script sees it: like the
// /dev/fd of other shells, and without a word about the host.
var pipesDir = "/proc/self/fd/" + strconv.Itoa(wire.FDPipes)

// Limits of every worker.
const (
	maxFiles   = 512
	maxThreads = 96
	// maxStackBytes ends a script that calls itself for ever.
	maxStackBytes = 16 << 20
)

// confine limits the process before it knows what it is for. Every limit must be
// there but Landlock: where the kernel has none, nothing can be opened at all, and
// scripts do without process substitution.
func confine() error {
	debug.SetMaxStack(maxStackBytes)
	debug.SetMaxThreads(maxThreads)
	for what, n := range map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_FSIZE:  0, // it writes to pipes and sockets only
		unix.RLIMIT_NOFILE: maxFiles,
	} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	if err := seccomp.SetNoNewPrivs(); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	pipes := confineFiles() == nil // which signals all threads, by number
	if err := hideNumbers(); err != nil {
		return fmt.Errorf("hide process numbers: %w", err)
	}
	if err := confineCalls(pipes); err != nil {
		return fmt.Errorf("limit system calls: %w", err)
	}
	// A filter that is not in force would be worse than none: who relies on it
	// must know.
	if f, err := os.Open("/"); err == nil {
		_ = f.Close()
		return fmt.Errorf("limit system calls: files can be opened still")
	}
	return nil
}

// confineFiles leaves the directory of named pipes as the only place where
// anything can be opened.
func confineFiles() error {
	return landlock.V1.RestrictPaths(landlock.RWDirs(pipesDir))
}

// limits are those of the job.
func limits(memory, cpuSeconds uint64) error {
	memory += ExtraBytes
	debug.SetMemoryLimit(int64(memory / 4 * 3))
	for what, n := range map[int]uint64{unix.RLIMIT_DATA: memory, unix.RLIMIT_CPU: cpuSeconds} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	return nil
}

// calls are what the Go runtime, pipes, sockets that are there, and clocks need.
// No name leads to a file, a process or a network from here.
var calls = []string{
	"read", "write", "readv", "writev", "close", "fstat", "lseek", "fcntl", "dup", "dup3", "pipe2",
	"poll", "ppoll", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2",
	"sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown", "getsockopt", "getsockname", "getpeername",
	"mmap", "munmap", "mprotect", "madvise", "mremap", "mincore", "brk",
	"futex", "sched_yield", "sched_getaffinity", "set_robust_list", "rseq", "restart_syscall",
	"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getrandom", "getrusage", "times", "uname", "sysinfo",
	"setrlimit", "getrlimit", "exit", "exit_group", "arch_prctl",
}

// pipeCalls are for named pipes; Landlock says where. There is no way to ask
// whether a file exists, which Landlock would not refuse.
var pipeCalls = []string{"openat", "mknodat", "unlinkat"}

// hideNumbers makes 0 of the numbers of this process and its parent, which the shell
// gives to scripts in many ways and which are the host's. The library below cannot say
// so: to it an error has a number. The runtime knows its own process by its number only
// to interrupt loops that call nothing, and has no such in here.
func hideNumbers() error {
	const success = unix.SECCOMP_RET_ERRNO // with the error 0
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_GETPID},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPPID},
		{Code: unix.BPF_RET | unix.BPF_K, K: success},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	own := os.Getpid()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	if os.Getpid() == own {
		return fmt.Errorf("the filter is not in force")
	}
	return nil
}

// confineCalls allows the calls above, threads, signals to and limits of this
// process, and nothing else.
func confineCalls(pipes bool) error {
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	allowed := calls
	if pipes {
		allowed = append(slices.Clone(calls), pipeCalls...)
	}
	known := slices.DeleteFunc(slices.Clone(allowed), func(name string) bool {
		_, ok := info.SyscallNames[name]
		return !ok
	})
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				{Names: known, Action: seccomp.ActionAllow},
				// Its flags are in memory, where no filter sees them. Told that it
				// does not exist, C libraries use the older call.
				{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS)},
				{Action: seccomp.ActionAllow, NamesWithCondtions: []seccomp.NameWithConditions{
					{Name: "clone", Conditions: first(seccomp.BitsSet, unix.CLONE_THREAD)},
					// Only this process, which the runtime takes for 0.
					{Name: "tgkill", Conditions: first(seccomp.Equal, 0)},
					{Name: "prlimit64", Conditions: first(seccomp.Equal, 0)},
				}},
			},
		},
	})
}

// first is a condition on the first argument of a call.
func first(op seccomp.Operation, value uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: 0, Operation: op, Value: value}}
}

// setLinks sets a field whose type is not the same everywhere.
func setLinks(st *syscall.Stat_t, n uint32) { setInteger(&st.Nlink, n) }

func setInteger[T ~uint16 | ~uint32 | ~uint64](field *T, n uint32) { *field = T(n) }
