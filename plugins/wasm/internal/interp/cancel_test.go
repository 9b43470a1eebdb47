package interp

import (
	"context"
	"testing"
	"time"
)

// A program whose caller goes away is canceled at whatever point that finds it;
// work of the host that fails for the same reason is no error of the program's.
func TestCanceledAnywhere(t *testing.T) {
	for interpreter, p := range map[string]struct{ file, source string }{
		"node":    {"main.js", "const fs = require('fs'); for (;;) { fs.readdirSync('/mnt/data'); new Function('')() }"},
		"python3": {"main.py", "import glob\nwhile True: glob.glob('/mnt/data/*')"},
	} {
		t.Run(interpreter, func(t *testing.T) {
			need(t, interpreter)
			step := 1
			if testing.Short() {
				step = 7
			}
			for i := 0; i < 100; i += step {
				s := newSandbox(t)
				ctx, cancel := context.WithCancel(context.Background())
				p := s.program(interpreter, p.file, p.source)
				p.Started = func() { time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel) }
				if o := s.run(ctx, p); o.Reason != ReasonCanceled || o.stderr != "" {
					t.Errorf("canceled %d times 20 µs after the start: %+v", i, o)
				}
				cancel()
			}
		})
	}
}
