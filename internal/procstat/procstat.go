// Package procstat reads what Linux tells of a process under /proc. Elsewhere every
// question is an error. It knows nothing of plugins.
package procstat

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
)

// errForm: /proc does not look as proc(5) says.
var errForm = errors.New("/proc tells nothing of it")

// Fields returns the fields of /proc/PID/stat that come behind the name of the process:
// the first, its state, is the third of proc(5).
func Fields(pid int) ([]string, error) {
	b, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return nil, err
	}
	// The name, which may hold anything, comes before and in parentheses.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) == 0 {
		return nil, errForm
	}
	return f, nil
}

// Started is when a process was started, in clock ticks since the machine was.
func Started(pid int) (uint64, error) {
	f, err := Fields(pid)
	const started = 22 - 3 // field 22 of proc(5), the first here being the third
	if err == nil && len(f) <= started {
		err = errForm
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(f[started], 10, 64)
}

// MemoryHigh is the most memory that a process had at one time, in bytes: what was
// resident, with what it shares (VmHWM of proc(5)).
func MemoryHigh(pid int) (int64, error) {
	b, err := os.ReadFile(file(pid, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 53)
			return n << 10, err
		}
	}
	return 0, errForm // it has ended, and nobody has waited for it
}

// Executable is a path under which the program that a process executes can be read,
// whatever became of its file.
func Executable(pid int) string { return file(pid, "exe") }

func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
