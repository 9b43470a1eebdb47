package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of processor time in /proc, USER_HZ, which is 100 everywhere.
const tick = time.Second / 100

// CPU is the processor time that the process has used until now, of all its threads
// and without its children; 0 once it is gone.
func (p *Process) CPU() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped { // the number may be another's by now
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	// The name of the command is in parentheses and may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("/proc says nothing of processor time")
	}
	var sum time.Duration
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
