package interp

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPythonBigOutput(t *testing.T) {
	s := newSandbox(t)
	o := s.python("print('x' * (10 << 20))")
	if o.Code != 0 || len(o.stdout) != 10<<20+1 {
		t.Errorf("one print: code %d, %d bytes", o.Code, len(o.stdout))
	}
	o = s.python("for i in range(20000): print('y' * 99)")
	if o.Code != 0 || o.stdout != strings.Repeat(strings.Repeat("y", 99)+"\n", 20000) {
		t.Errorf("many prints: code %d, %d bytes", o.Code, len(o.stdout))
	}
}

func TestPythonMemory(t *testing.T) {
	s := newSandbox(t)
	run := func(source string) out {
		p := s.program("python3", "main.py", source)
		p.MemoryBytes = 96 << 20
		return s.run(context.Background(), p)
	}
	o := run("x = 'a' * (700 << 20)")
	if o.Code != 1 || o.Reason != ReasonExit || !o.MemoryLimited || !strings.HasSuffix(o.stderr, "MemoryError\n") {
		t.Errorf("uncaught: %+v", o)
	}
	if o.PeakMemoryBytes < 10<<20 || o.PeakMemoryBytes > 96<<20 {
		t.Errorf("peak is %d", o.PeakMemoryBytes)
	}
	o = run("x = []\ntry:\n    while True: x.append(bytearray(1 << 20))\nexcept MemoryError:\n    n = len(x); del x; print(n > 20)")
	s.expect(o, 0, "True\n", "")
	if !o.MemoryLimited {
		t.Error("the refused growth is not reported")
	}
	// Small objects up to the limit: however it ends, it ends and is typed.
	o = run("x = []\nwhile True: x.append([len(x)])")
	if o.Code == 0 || !o.MemoryLimited {
		t.Errorf("small objects: %+v", o)
	}
	p := s.program("python3", "main.py", "")
	p.MemoryBytes = 1 << 20
	if _, err := shared.Run(context.Background(), p); err == nil {
		t.Error("a limit below the interpreter's own needs was accepted")
	}
}

func TestPythonRecursion(t *testing.T) {
	need(t, "python3")
	s := newSandbox(t)
	for name, source := range map[string]string{
		"function": "def f(n): return f(n + 1)\nf(0)",
		"repr":     "class A:\n    def __repr__(self): return repr(A())\nrepr(A())",
		"eq":       "class A:\n    def __eq__(self, o): return [A()] == [o]\nA() == A()",
		"getattr":  "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().y",
		"sort key": "def k(x): return sorted([x], key=k)\nk(1)",
		"call":     "class A:\n    def __call__(self): return A()()\nA()()",
		"init":     "class A:\n    def __init__(self): A()\nA()",
		"format":   "class A:\n    def __format__(self, s): return f'{self}'\nf'{A()}'",
		"cache":    "import functools\n@functools.lru_cache\ndef f(n): return f(n + 1)\nf(1)",
		"property": "class A:\n    @property\n    def x(self): return self.x\nA().x",
		"json":     "import json\nx = []\nfor _ in range(5000): x = [x]\njson.dumps(x)",
		"loads":    "import json\njson.loads('[' * 5000)",
		"pickle":   "import pickle\nx = []\nfor _ in range(5000): x = [x]\npickle.dumps(x)",
		"parse":    "eval('(' * 150 + ')' * 150 + 'x')",
		"compile":  "x = '+'.join(['1'] * 5000)\ncompile(x, 'x', 'eval')",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		o := s.run(ctx, s.program("python3", "main.py", source))
		cancel()
		if o.Code != 1 || o.Err != nil || !strings.Contains(last(o.stderr), "Error") {
			t.Errorf("%s: code %d, %v, stderr ends %q", name, o.Code, o.Err, last(o.stderr))
		}
	}
	s.expect(s.python("def f(n): return n and f(n - 1) + 1\nprint(f(900))"), 0, "900\n", "")
}

// last returns the last line of s.
func last(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndex(s, "\n")+1:]
}

func TestPythonOutputError(t *testing.T) {
	s := newSandbox(t)
	p := s.program("python3", "main.py", "print('x')\nprint('y')\nimport sys\nprint('still here', file=sys.stderr)")
	need(t, "python3")
	gone := fmt.Errorf("the caller is gone")
	calls := 0
	p.Stdout = writerFunc(func([]byte) (int, error) { calls++; return 0, gone })
	var stderr bytes.Buffer
	p.Stderr = &stderr
	o := s.run(context.Background(), p)
	if o.Code != 0 || o.OutputErr != gone || calls != 1 || stderr.String() != "still here\n" {
		t.Errorf("%+v after %d calls, stderr %q", o.Result, calls, stderr.String())
	}
}

// A program may lift the limit, but not so far that to unwind what fills the memory
// takes longer than it has.
func TestPythonRecursionLimit(t *testing.T) {
	need(t, "python3")
	s := newSandbox(t)
	s.expect(s.run(context.Background(), s.program("python3", "main.py", `import sys
for n in 50, 500_000, 500_001, 10**9:
    sys.setrecursionlimit(n)
    print(sys.getrecursionlimit())
for n in 0, "x", 2**64:
    try:
        sys.setrecursionlimit(n)
    except Exception as e:
        print(type(e).__name__)
print(sys.getrecursionlimit())
`)), 0, "50\n500000\n500000\n500000\nValueError\nTypeError\n500000\n", "")
	if testing.Short() {
		t.Skip("it takes seconds to get there")
	}
	p := s.program("python3", "main.py", "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()")
	o := s.run(context.Background(), p)
	if o.Code != 1 || o.Reason != ReasonExit || !strings.Contains(o.stderr, "RecursionError: maximum recursion depth exceeded") {
		t.Errorf("code %d, %s, %.300q", o.Code, o.Reason, o.stderr)
	}
	if limit := Fuel(30 * time.Second); o.Fuel > limit/3 {
		t.Errorf("%d units were used, a run has %d", o.Fuel, limit)
	}
}
