package interp

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// A run that cannot start from a snapshot is right and slow, so nothing else
// would notice.
func TestPythonBootsOnce(t *testing.T) {
	need(t, "python3")
	in, err := shared.interpreter(context.Background(), packs.CPython)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.(interface{ SnapshotErr() error }).SnapshotErr(); err != nil {
		t.Fatal(err)
	}
}

// Every program here behaves the same whether it starts from the snapshot or
// boots an interpreter of its own, which asking for an optimisation level makes
// it do.
func TestPythonSnapshotIsTheCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("one program at a time, for a long time")
	}
	for name, source := range map[string]string{
		"main":                 "print(__name__, __file__, __spec__, __doc__, __builtins__.__name__, type(__loader__).__name__)",
		"path":                 "import sys\nprint(sys.path[:2], sys.argv, sys.orig_argv[-2:], sys.flags.interactive)",
		"environment":          "import os\nprint({k: v for k, v in sorted(os.environ.items()) if not k.startswith('PYTHON')}, os.getcwd())",
		"unclosed file":        "f = open('left', 'w')\nf.write('kept')\nprint('open')",
		"unclosed in a module": "import helper\nprint('open')",
		"exit function":        "import atexit\natexit.register(print, 'bye')\nprint('hello')",
		"exit function raises": "import atexit\natexit.register(lambda: 1 / 0)\nprint('hello')",
		"finalizer":            "class A:\n    def __del__(self): print('gone')\na = A()\nprint('here')",
		"cycle":                "class A:\n    def __del__(self): print('gone')\na = A()\na.a = a\nprint('here')",
		"old cycle":            "import gc\nclass A:\n    def __del__(self): print('gone')\na = A()\na.a = a\ngc.collect()\nprint('here')",
		"young and old":        "import gc\nclass A:\n    def __init__(self): self.a = self\n    def __del__(self): print('gone')\na = A()\nfor i in range(30000): a.l = [[] for _ in range(3)]\nb = A()",
		"replaced module":      "import sys, types\nm = types.ModuleType('m')\nm.f = open('left', 'w')\nm.f.write('kept')\nsys.modules.pop('json', None)\nsys.modules['m'] = m\ndel m",
		"buffered log":         "import logging, logging.handlers\nlogging.getLogger().addHandler(logging.handlers.MemoryHandler(9, target=logging.StreamHandler()))\nlogging.warning('late')",
		"random":               "import sys, types\nr = sys.modules.get('random') or __import__('random')\nr.seed(7)\nprint(type(r) is types.ModuleType, r.random(), r.__name__)",
		"from random":          "from random import randint, Random\nprint(randint(3, 3), Random(1).random())",
		"exit string":          "raise SystemExit('so long')",
		"exit none":            "raise SystemExit",
		"exit bool":            "raise SystemExit(True)",
		"exit negative":        "raise SystemExit(-2)",
		"exit float":           "raise SystemExit(1.5)",
		"uncaught":             "def f():\n    raise KeyError('k')\nf()",
		"chained":              "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('v') from e",
		"group":                "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
		"notes":                "e = ValueError('v')\ne.add_note('note')\nraise e",
		"interrupt":            "raise KeyboardInterrupt",
		"own hook":             "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
		"broken hook":          "import sys\nsys.excepthook = lambda *a: 1 / 0\nint('x')",
		"syntax":               "def f(:\n    pass",
		"syntax in import":     "import broken",
		"indentation":          "if 1:\nprint(1)",
		"encoding":             "# coding: latin-1\nprint('\xe9')",
		"bad encoding":         "# coding: nonsense\nprint(1)",
		"not utf-8":            "print('\xff')",
		"null":                 "print(1)\x00",
		"empty":                "",
		"bom":                  "\ufeffprint('bom')",
		"crlf":                 "print(1)\r\nif 1:\r\n    print(2)\r\n",
		"recursion":            "def f(): f()\ntry: f()\nexcept RecursionError as e: print(e)",
		"closed stdout":        "import sys\nsys.stdout.close()",
		"no newline":           "print('x', end='')\nimport os\nos._exit(3)",
		"logging":              "import logging\nlogging.warning('w')",
		"warnings":             "import warnings\nwarnings.warn('w')",
		"sets":                 "print(sorted({'b', 'a'}))",
		"unittest":             "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 2)\nunittest.main(argv=['x'])",
		"asyncio":              "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    raise ValueError('in f')\nasyncio.run(f())",
		"dataclass":            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1))",
		"pickle main":          "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)",
	} {
		t.Run(name, func(t *testing.T) {
			both := map[string]out{}
			for _, level := range []string{"", "0"} {
				s := newSandbox(t)
				need(t, "python3")
				s.file("helper.py", "f = open('left', 'w')\nf.write('kept')\n")
				s.file("broken.py", "x = = 1\n")
				p := s.program("python3", "main.py", source, "a b", "")
				p.Env = map[string]string{"A": "b", "PYTHONUNBUFFERED": "1"}
				if level != "" {
					p.Env["PYTHONOPTIMIZE"] = level
				}
				o := s.run(context.Background(), p)
				if strings.Contains(source, "left") || strings.Contains(source, "helper") {
					o.stdout += s.content("left")
				}
				both[level] = o
			}
			fast, plain := both[""], both["0"]
			if fast.Code != plain.Code || fast.stdout != plain.stdout || addresses.ReplaceAllString(fast.stderr, "") != addresses.ReplaceAllString(plain.stderr, "") {
				t.Errorf("from the snapshot: %d\n%s\n%s\nby itself: %d\n%s\n%s", fast.Code, fast.stdout, fast.stderr, plain.Code, plain.stdout, plain.stderr)
			}
		})
	}
}

// addresses and durations differ between any two runs.
var addresses = regexp.MustCompile(`0x[0-9a-f]+|in \d\.\d+s`)
