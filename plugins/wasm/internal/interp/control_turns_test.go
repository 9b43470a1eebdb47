package interp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// TestSuspendedRunsLetOthersCompute: who waits has no slot, and has one again afterwards.
func TestSuspendedRunsLetOthersCompute(t *testing.T) {
	for _, c := range []struct{ interpreter, file, source string }{
		{"node", "main.js", `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+')
fs.writeSync(fd, '{"id":"1","name":"n","input":1}\n')
fs.readSync(fd, Buffer.alloc(100), 0, 100, null)
console.log('on')`},
		{"python3", "main.py", `
import select, time
f = open('/dev/caisson-control', 'r+b', buffering=0)
f.write(b'{"id":"1","name":"n","input":1}\n')
time.sleep(0.2)
select.select([f], [], [])
print('on')`},
		{"bash", "main.sh", `"$CAISSON_CALL" n > /dev/null; echo on`},
	} {
		t.Run(c.interpreter, func(t *testing.T) {
			need(t, c.interpreter)
			need(t, "node")
			cfg := Config{Parked: -1, MaxRunning: 1, Shell: shared.cfg.Shell}
			e := newEngine(t, cfg)
			var waiting sync.WaitGroup
			release := make(chan struct{})
			answer := func(ctx context.Context, c control.Call) (control.Reply, error) {
				waiting.Done()
				<-release
				return control.Reply{Result: c.Input}, nil
			}
			const n = 8
			waiting.Add(n)
			var all sync.WaitGroup
			for range n {
				s := newSandbox(t)
				p := s.program(c.interpreter, c.file, c.source)
				s.callable(&p, answer)
				all.Go(func() { s.expect(s.runOn(e, p), 0, "on\n", "") })
			}
			waiting.Wait()
			s := newSandbox(t)
			s.expect(s.runOn(e, s.program("node", "main.js", "console.log('other')")), 0, "other\n", "")
			close(release)
			all.Wait()
			if e.slots.TryAcquire(1) {
				e.slots.Release(1)
			} else {
				t.Error("a slot is lost")
			}
			if e.slots.TryAcquire(2) {
				t.Error("there is a slot too many")
			}
		})
	}
}

// TestScriptsComputeInTheirTurn: a script that goes on to compute beside its calls,
// whose place another has by then, is stopped until there is one.
func TestScriptsComputeInTheirTurn(t *testing.T) {
	need(t, "bash")
	e := newEngine(t, Config{Parked: -1, MaxRunning: 1, Shell: shared.cfg.Shell})
	s := newSandbox(t)
	p := s.program("bash", "main.sh", `
"$CAISSON_CALL" n > /dev/null &
sleep 1
while [ ! -e go ]; do :; done
echo on`)
	called := make(chan struct{})
	s.callable(&p, func(ctx context.Context, c control.Call) (control.Reply, error) {
		close(called)
		return after(time.Hour)(ctx, c)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.expect(s.runOn(e, p), 0, "on\n", "")
	}()
	<-called
	if err := e.slots.Acquire(t.Context(), 1); err != nil { // the script's, while it sleeps
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !stoppedChild(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("it computes without a place")
			break
		}
	}
	e.slots.Release(1)
	if err := os.WriteFile(s.data+"/go", nil, 0o600); err != nil {
		t.Error(err)
	}
	<-done
}

// stoppedChild reports whether a process of this one was stopped by a signal.
func stoppedChild(t *testing.T) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(names) == 0 {
		t.Skip("there is no /proc")
	}
	for _, name := range names {
		text, _ := os.ReadFile(name) // it may be gone
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[0] == "T" && fields[1] == strconv.Itoa(os.Getpid()) {
			return true
		}
	}
	return false
}

// TestBesideIsFuel: what is computed beside an open call is bounded, and nothing else is.
func TestBesideIsFuel(t *testing.T) {
	for _, c := range []struct{ interpreter, file, source string }{
		{"node", "main.js", `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+')
for (let i = 0; i < 3e6; i++);
fs.writeSync(fd, '{"id":"1","name":"n","input":1}\n')
console.log('begun')
for (;;);`},
		{"bash", "main.sh", `"$CAISSON_CALL" n & echo begun; node -e 'for (;;);'`},
		{"bash", "main.sh", `"$CAISSON_CALL" n & echo begun; while :; do :; done`},
	} {
		need(t, c.interpreter)
		s := newSandbox(t)
		p := s.program(c.interpreter, c.file, c.source)
		s.callable(&p, after(time.Hour))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		over := errors.New("too much beside")
		p.Beside = &guest.Beside{Limit: Fuel(300 * time.Millisecond), Expire: func() { cancel(over) }}
		o := s.run(ctx, p)
		if o.Reason != ReasonCanceled || !errors.Is(context.Cause(ctx), over) || o.stdout != "begun\n" {
			t.Errorf("%s: %+v, %v", c.interpreter, o, context.Cause(ctx))
		}
		if cpu := CPUTime(o.Fuel); cpu < 300*time.Millisecond || cpu > 5*time.Second {
			t.Errorf("%s: it used %v", c.interpreter, cpu)
		}
	}
}

// TestOthersRunBesideBurners: programs that compute beside their open calls have only a
// part of the processors, and none of the places. They do go on, and in their places once
// they were answered.
func TestOthersRunBesideBurners(t *testing.T) {
	for _, c := range []struct{ interpreter, file, source string }{
		{"node", "main.js", `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+'), b = Buffer.alloc(100)
fs.writeSync(fd, '{"id":"1","name":"n","input":1}\n')
for (let i = 0; i < 1e7; i++);
fs.writeFileSync('burnt', '')
fs.readSync(fd, b, 0, 100, null)
console.log('answered')`},
		{"bash", "main.sh", `"$CAISSON_CALL" n >/dev/null & for ((i = 0; i < 300000; i++)); do :; done; : > burnt; wait; echo answered`},
	} {
		if need(t, c.interpreter); testing.Short() && c.interpreter == "bash" {
			continue // its loop takes a minute under the race detector
		}
		const burners = 4
		e := newEngine(t, Config{MaxRunning: 2, Shell: shared.cfg.Shell})
		answers := make(chan struct{})
		var all sync.WaitGroup
		var open atomic.Int64
		var burnt []string
		for range burners {
			s := newSandbox(t)
			burnt = append(burnt, filepath.Join(s.data, "burnt"))
			p := s.program(c.interpreter, c.file, c.source)
			end := s.callable(&p, func(ctx context.Context, call control.Call) (control.Reply, error) {
				open.Add(1)
				select {
				case <-answers:
				case <-ctx.Done():
				}
				return control.Reply{Result: []byte("1")}, ctx.Err()
			})
			p.Beside = &guest.Beside{Limit: Fuel(time.Hour), Expire: func() {}}
			all.Go(func() {
				defer end()
				s.expect(s.runOn(e, p), 0, "answered\n", "")
			})
		}
		for open.Load() < burners && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		s := newSandbox(t)
		for range 10 {
			s.expect(s.runOn(e, s.program("node", "main.js", "console.log(1)")), 0, "1\n", "")
		}
		for _, file := range burnt { // they would have to be through, had they the places
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s: other programs waited for a burner", c.interpreter)
			}
		}
		close(answers)
		all.Wait()
	}
}

// TestWaitingCostsNoFuel: the same program uses the same fuel, however long it waits.
func TestWaitingCostsNoFuel(t *testing.T) {
	need(t, "node")
	s := newSandbox(t)
	fuel := func(d time.Duration) int64 {
		p := s.program("node", "main.js", `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+'), b = Buffer.alloc(100)
for (let i = 0; i < 5; i++) {
  fs.writeSync(fd, '{"id":"1","name":"n","input":1}\n')
  fs.readSync(fd, b, 0, 100, null)
}`)
		s.callable(&p, after(d))
		o := s.run(t.Context(), p)
		s.expect(o, 0, "", "")
		return o.Fuel
	}
	if a, b := fuel(time.Millisecond), fuel(300*time.Millisecond); a != b {
		t.Errorf("%d units, and %d after longer waits", a, b)
	}
}
