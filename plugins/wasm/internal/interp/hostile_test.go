package interp

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// greedy are programs that want more than they may have, and the reasons for which
// they may end.
var greedy = map[string]map[string]struct {
	source  string
	reasons []Reason
}{
	"python3": {
		"loop":         {"while True: pass", []Reason{ReasonTimeout}},
		"call tree":    {"def f(n): return f(n - 1) + f(n - 1) if n else 1\nf(90)", []Reason{ReasonTimeout}},
		"recursion":    {"import sys\nsys.setrecursionlimit(10 ** 8)\ndef f(): f()\nf()", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"c recursion":  {"import sys\nsys.setrecursionlimit(10 ** 8)\nclass A:\n  def __getattr__(self, n): return getattr(self, n + 'x')\nA().y", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"copies":       {"b = bytearray(100 << 20)\nc = bytearray(100 << 20)\nwhile True: b[:] = c", []Reason{ReasonTimeout}},
		"moves":        {"b = bytearray(200 << 20)\nwhile True: b[1:] = memoryview(b)[:-1]", []Reason{ReasonTimeout}},
		"fills":        {"while True: bytearray(400 << 20)", []Reason{ReasonTimeout}},
		"allocations":  {"x = []\nwhile True:\n  try:\n    while True: x.append(bytearray(1 << 24))\n  except MemoryError: x.pop()", []Reason{ReasonTimeout}},
		"small":        {"x = []\nwhile True: x.append([len(x)])", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"regex":        {"import re\nre.match('(a+)+$', 'a' * 40 + 'b')", []Reason{ReasonTimeout}},
		"bigint":       {"x = 7 ** (10 ** 7)", []Reason{ReasonTimeout}},
		"digits":       {"import sys\nsys.set_int_max_str_digits(0)\nstr(1 << (1 << 24))", []Reason{ReasonTimeout}},
		"format":       {"'%*d' % (2 ** 31 - 1, 1)", []Reason{ReasonExit, ReasonTimeout, ReasonMemory}},
		"find":         {"('a' * 10 ** 7 + 'b').find('a' * 10 ** 6 + 'c')\nwhile True: ('ab' * 10 ** 7).count('ba' * 10 ** 3)", []Reason{ReasonTimeout}},
		"sum":          {"sum(range(10 ** 12))", []Reason{ReasonTimeout}},
		"compile":      {"compile('[' * 90 + ']' * 90, 'x', 'eval')\nwhile True: compile('x = 1\\n' * 100000, 'x', 'exec')", []Reason{ReasonTimeout}},
		"sleep":        {"import time\nwhile True: time.sleep(1e9)", []Reason{ReasonTimeout}},
		"many sleeps":  {"import time\nwhile True: time.sleep(1e-9)", []Reason{ReasonTimeout}},
		"many writes":  {"import os\nwhile True: os.write(1, b'')", []Reason{ReasonTimeout}},
		"one write":    {"import os\nb = bytes(300 << 20)\nwhile True: os.write(1, b)", []Reason{ReasonTimeout}},
		"random":       {"import os\nwhile True: os.urandom(100 << 20)", []Reason{ReasonTimeout}},
		"finally":      {"while True:\n  try: raise ValueError\n  finally: continue", []Reason{ReasonTimeout}},
		"exit handler": {"import atexit\natexit.register(lambda: [0 for _ in iter(int, 1)])", []Reason{ReasonTimeout}},
	},
	"node": {
		"loop":        {"for (;;);", []Reason{ReasonTimeout}},
		"call tree":   {"const f = (n) => n ? f(n - 1) + f(n - 1) : 1; f(90)", []Reason{ReasonTimeout}},
		"copies":      {"const a = new Uint8Array(100 << 20); for (;;) a.copyWithin(1, 0)", []Reason{ReasonTimeout}},
		"fills":       {"const a = new Uint8Array(100 << 20); for (;;) a.fill(1)", []Reason{ReasonTimeout}},
		"allocations": {"const x = []; for (;;) { try { for (;;) x.push(new Uint8Array(1 << 24)) } catch { x.pop() } }", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"small":       {"const x = []; for (;;) x.push([x.length])", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"regex":       {"/^(a+)+$/.test('a'.repeat(40) + 'b')", []Reason{ReasonTimeout}},
		"bigint":      {"7n ** (10n ** 7n)", []Reason{ReasonTimeout, ReasonExit}},
		"strings":     {"let s = 'x'; for (;;) { try { s += s } catch { s = 'x' } }", []Reason{ReasonTimeout, ReasonExit, ReasonMemory}},
		"join":        {"const a = Array(1e6).fill('x'.repeat(100)); for (;;) a.join('')", []Reason{ReasonTimeout, ReasonExit}},
		"hash":        {"const c = require('crypto'), b = Buffer.alloc(100 << 20); for (;;) c.createHash('sha512').update(b).digest()", []Reason{ReasonTimeout}},
		"random":      {"const c = require('crypto'); for (;;) c.randomBytes(50 << 20)", []Reason{ReasonTimeout}},
		"index":       {"const b = Buffer.alloc(100 << 20, 'a'); for (;;) b.indexOf('a'.repeat(1000) + 'b')", []Reason{ReasonTimeout}},
	},
}

// TestHostileProgramsAreStopped gives each program less than half a second. It has to be over soon
// after that, and to leave nothing: the next program runs, and the process is no
// larger than before.
func TestHostileProgramsAreStopped(t *testing.T) {
	files := map[string]string{}
	for _, h := range hello {
		files[h.interpreter] = h.file
	}
	for interpreter, programs := range greedy {
		if !installed(interpreter) {
			continue
		}
		before, after := 0, 0
		for name, p := range programs {
			t.Run(interpreter+"/"+name, func(t *testing.T) {
				s := newSandbox(t)
				ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
				defer cancel()
				prog := s.program(interpreter, files[interpreter], p.source)
				var out, errs head
				prog.Stdout, prog.Stderr = &out, &errs
				o := s.on(ctx, shared, prog)
				late := max(time.Since(deadline(ctx)), 0)
				typed := false
				for _, r := range p.reasons {
					typed = typed || r == o.Reason
				}
				if !typed || o.Reason != ReasonExit && (o.Code != 137 || o.Err == nil) {
					t.Errorf("%s %v\n%s", short(o), o.Err, errs.b)
				}
				// Generous, for the machine may be busy; far below what would be a guest
				// that cannot be stopped.
				if late > 5*time.Second {
					t.Errorf("it ran on for %v", late)
				}
				t.Logf("%s, %v late, %d units", o.Reason, late.Round(100*time.Microsecond), o.Fuel)
			})
			s := newSandbox(t)
			for _, h := range hello {
				if h.interpreter == interpreter {
					if o := s.runOn(shared, s.program(h.interpreter, h.file, h.source)); o.Code != 0 || o.stdout != "1\n" {
						t.Errorf("after %s: %s", name, short(o))
					}
				}
			}
			if after = resident(t); before == 0 {
				before = after
			}
		}
		// Guests had half a GiB each.
		if after > before+200<<20 {
			t.Errorf("%s: the process had %d MiB and has %d MiB", interpreter, before>>20, after>>20)
		}
		t.Logf("%s: resident %d MiB, then %d MiB", interpreter, before>>20, after>>20)
	}
}

// head keeps the beginning of a stream.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), 1<<10-min(len(h.b), 1<<10))]...)
	return len(p), nil
}

// resident is the memory that the process has, 0 where nothing tells.
func resident(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	debug.FreeOSMemory() // garbage, of other tests too, is nothing that a guest keeps
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(bytes.TrimSpace(b)))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
