package hostbackend

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const canMeasure = true

// tick is the unit of processor time in /proc, USER_HZ, which is 100 everywhere.
const tick = time.Second / 100

// used adds up the processor time of the process group that runs, and of its children
// that have ended.
func (x *box) used() (time.Duration, error) {
	group := x.group.Load()
	if group == 0 {
		return time.Duration(x.last.Load()), nil
	}
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name of the command is in parentheses and may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 15 || string(fields[2]) != strconv.FormatInt(group, 10) {
			continue
		}
		for _, f := range fields[11:15] { // utime, stime, cutime, cstime
			n, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	if sum < time.Duration(x.last.Load()) { // processes ended
		sum = time.Duration(x.last.Load())
	}
	x.last.Store(int64(sum))
	return sum, nil
}
