package interp

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"
)

// soon is how long a program may run after it said that it has started.
const soon = 200 * time.Millisecond

// runAndKill runs a program that prints "started", and whose deadline comes a while after
// that. It returns how long after the deadline the run returned.
func (s *sandbox) runAndKill(p Program, after time.Duration) (o out, late time.Duration) {
	s.t.Helper()
	ctx := &started{Context: context.Background(), done: make(chan struct{})}
	defer context.AfterFunc(s.t.Context(), ctx.end)()
	slow := time.AfterFunc(time.Minute, ctx.end) // a program that does not start
	defer slow.Stop()
	defer ctx.end()
	var stdout, stderr bytes.Buffer
	if p.Stdout == nil {
		p.Stdout = writerFunc(func(b []byte) (int, error) {
			ctx.once.Do(func() { ctx.timer = time.AfterFunc(after, ctx.end) })
			if stdout.Len() < 1<<16 {
				stdout.Write(b)
			}
			return len(b), nil
		})
	}
	p.Stderr = &stderr
	res, err := shared.Run(ctx, p)
	if err != nil {
		s.t.Fatal(err)
	}
	if ctx.timer != nil {
		ctx.timer.Stop()
	}
	ctx.mu.Lock()
	defer ctx.mu.Unlock()
	if !ctx.at.IsZero() {
		late = time.Since(ctx.at)
	}
	return out{res, stdout.String(), stderr.String()}, late
}

// started is a context whose deadline is known when a program has started.
type started struct {
	context.Context
	done  chan struct{}
	once  sync.Once // sets timer
	timer *time.Timer

	mu sync.Mutex
	at time.Time // of the end
}

func (c *started) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		c.at = time.Now()
		close(c.done)
	}
}

func (c *started) Done() <-chan struct{} { return c.done }

func (c *started) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// expectKilled runs a program that prints something and does not end, and wants it
// ended by its time, and what it printed.
func (s *sandbox) expectKilled(p Program) out {
	s.t.Helper()
	o, late := s.runAndKill(p, soon)
	if o.Reason != ReasonTimeout || o.Code != 137 || o.Err == nil {
		s.t.Errorf("reason %s, code %d (%v), stderr %q", o.Reason, o.Code, o.Err, o.stderr)
	}
	s.t.Logf("returned %v after the deadline", late.Round(100*time.Microsecond))
	return o
}

// killed are programs that are ended by their time, one of each shape.
func killed(t *testing.T, interpreter, file, start string, shapes map[string]string) {
	t.Helper()
	need(t, interpreter)
	for name, source := range shapes {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t)
			p := s.program(interpreter, file, start+"\n"+source)
			blocked, unblock := blockedReader()
			defer unblock()
			p.Stdin = blocked
			if o := s.expectKilled(p); !bytes.HasPrefix([]byte(o.stdout), []byte("started\n")) {
				t.Errorf("what was printed before is lost: %.100q", o.stdout)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := newSandbox(t)
		p := s.program(interpreter, file, start+"\n"+shapes["loop"])
		p.Stdout = writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
		if o := s.run(ctx, p); o.Reason != ReasonCanceled || o.Code != 137 {
			t.Errorf("reason %s, code %d", o.Reason, o.Code)
		}
	})
}

func TestPythonIsKilled(t *testing.T) {
	killed(t, "python3", "main.py", "print('started')", map[string]string{
		"loop":         "while True: pass",
		"except loop":  "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
		"regex":        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
		"bigint":       "x = 7 ** (10 ** 7)",
		"sort":         "import random\nwhile True: sorted(range(10**6), key=lambda x: -x)",
		"sleep":        "import time\ntime.sleep(1e6)",
		"asyncio":      "import asyncio\nasyncio.run(asyncio.sleep(1e6))",
		"select":       "import select\nselect.select([], [], [])",
		"stdin":        "import sys\nsys.stdin.read()",
		"output":       "while True: print('x' * 1000)",
		"string build": "x = 'a'\nwhile True: x.replace('a', 'bb' * 1000000)",
	})
}

func TestJavaScriptIsKilled(t *testing.T) {
	killed(t, "node", "main.js", "process.stdout.write('started\\n');", map[string]string{
		"loop":       "for (;;);",
		"catch loop": "for (;;) try { for (;;); } catch {} finally { continue }",
		"regex":      "/^(a+)+$/.test('a'.repeat(40) + 'b')",
		"bigint":     "let x = 7n; for (;;) x = x * x % (10n ** 5000n)",
		"sort":       "const a = Array.from({length: 1e5}, (_, i) => i); for (;;) a.sort((x, y) => y - x)",
		"timer":      "setTimeout(() => console.log('never'), 1e9)",
		"await":      "setInterval(() => {}, 1e9); await new Promise(() => {})",
		"microtasks": "const f = () => Promise.resolve().then(f); f()",
		"ticks":      "const f = () => process.nextTick(f); f()",
		"immediates": "const f = () => setImmediate(f); f()",
		"stdin":      "require('fs').readFileSync(0)",
		"stdin data": "process.stdin.on('data', () => {})",
		"output":     "for (;;) console.log('x'.repeat(1000))",
		"json":       "let o = []; for (let i = 0; i < 1e5; i++) o = [o]; JSON.stringify(o)",
		"exit loop":  "process.on('exit', () => { for (;;); })",
	})
}
