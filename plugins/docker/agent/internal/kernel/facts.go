//go:build linux

package kernel

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Facts are what the kernel says about this process.
type Facts struct {
	Caps, Bounding uint64
	NoNewPrivs     bool
	Seccomp        int
}

// ReadFacts reads them.
func ReadFacts() (Facts, error) {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return Facts{}, fmt.Errorf("read what the kernel says about the agent: %w", err)
	}
	var f Facts
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "CapPrm":
			f.Caps, err = strconv.ParseUint(value, 16, 64)
		case "CapBnd":
			f.Bounding, err = strconv.ParseUint(value, 16, 64)
		case "Seccomp":
			f.Seccomp, err = strconv.Atoi(value)
		}
		if err != nil {
			return Facts{}, fmt.Errorf("read what the kernel says about the agent: %s: %w", name, err)
		}
	}
	// Not from the file: gVisor's has no such line.
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return Facts{}, fmt.Errorf("ask whether new privileges are refused: %w", err)
	}
	f.NoNewPrivs = set == 1
	return f, nil
}

// table yields the fields of each line of a file but the first.
func table(path string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		b, err := os.ReadFile(path)
		if err != nil {
			return // not every kernel has it
		}
		first := true
		for line := range strings.Lines(string(b)) {
			if !first && !yield(strings.Fields(line)) {
				return
			}
			first = false
		}
	}
}

// Process is one process as /proc shows it.
type Process struct {
	PID, UID int
	// RSS is resident memory in bytes.
	RSS int64
	// Threads is how many it has.
	Threads int
}

// Processes lists the processes of this PID namespace.
func Processes() []Process {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var list []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := ReadProcess(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

// ReadProcess describes one process, dead ones that nobody waited for included.
func ReadProcess(pid int) (Process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, UID: -1}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "Uid:":
			p.UID, _ = strconv.Atoi(f[1])
		case "VmRSS:":
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			p.RSS = kb << 10
		case "Threads:":
			p.Threads, _ = strconv.Atoi(f[1])
		}
	}
	if p.UID < 0 { // gVisor does not say it there
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
			return Process{}, false
		}
		p.UID = int(st.Uid)
	}
	return p, true
}

// ProcessCPU returns the processor time of a process itself, exactly.
func ProcessCPU(pid int) time.Duration {
	var ts unix.Timespec
	const process = 2 // the clock of the scheduler (CPUCLOCK_SCHED), of all threads
	if unix.ClockGettime(int32(^pid<<3|process), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// stat is the fields of /proc/PID/stat behind the name, which may hold anything: the
// first is the state. It is empty when the process is gone.
func stat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// CPU returns the processor time of a process with that of children it waited for.
func CPU(pid int) time.Duration {
	f := stat(pid)
	if len(f) < 15 {
		return 0
	}
	var ticks int64
	for _, s := range f[11:15] { // utime stime cutime cstime
		n, _ := strconv.ParseInt(s, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 everywhere
}

// Children counts the processes whose parent this is, dead ones that nobody waited for
// included.
func Children() int {
	n := 0
	self := strconv.Itoa(os.Getpid())
	for _, p := range Processes() {
		if f := stat(p.PID); len(f) > 1 && f[1] == self {
			n++
		}
	}
	return n
}
