package worker

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// timing holds the beginnings of commands that "time" measures, innermost last.
type timing struct {
	mu     sync.Mutex
	begins []time.Time
}

// helper carries out the commands that rewritten scripts call.
func (t *timing) helper(hc interp.HandlerContext, args []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch strings.TrimPrefix(args[0], helperDir) {
	case "time-begin":
		t.begins = append(t.begins, time.Now())
		return nil
	case "time-end":
		n := len(t.begins)
		if n == 0 {
			break
		}
		d := time.Since(t.begins[n-1])
		t.begins = t.begins[:n-1]
		if len(args) > 1 {
			fmt.Fprintf(hc.Stderr, "real %.2f\nuser 0.00\nsys 0.00\n", d.Seconds())
		} else {
			fmt.Fprintf(hc.Stderr, "\nreal\t%dm%.3fs\nuser\t0m0.000s\nsys\t0m0.000s\n", int(d.Minutes()), d.Seconds()-60*float64(int(d.Minutes())))
		}
		if hc.LastExitStatus != 0 {
			return interp.ExitStatus(hc.LastExitStatus)
		}
		return nil
	}
	return interp.ExitStatus(127)
}
