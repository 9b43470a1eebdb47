package interp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// repeatable are programs that look at no clock and draw no random numbers.
var repeatable = map[string]map[string]string{
	"python3": {
		"hello":      "print(1)",
		"sets":       "print({'a', 'b', 'c', 'd', 'e', 'f'}, {str(i): i for i in range(200)}, hash('x'))",
		"addresses":  "class A: pass\nprint(A(), object(), [id(A()) % 1000 for _ in range(5)])",
		"traceback":  "def f(n): return f(n - 1) if n else 1 / 0\nf(50)",
		"recursion":  "def f(): f()\nf()",
		"json":       "import json\nx = [{'k%d' % i: [i, str(i), None, i / 3]} for i in range(500)]\nprint(len(json.dumps(json.loads(json.dumps(x)))))",
		"regex":      "import re\nprint(re.sub(r'(a|b)+c?', lambda m: m[0].upper(), 'abcabx' * 200)[:40])",
		"sort":       "print(sorted(((i * 7919) % 1009 for i in range(1009)), key=lambda x: (x % 7, x))[:9])",
		"big":        "print((7 ** 3000 % 1000007), len(str(3 ** 2000)))",
		"import":     "import zipfile, sqlite3, xml.dom.minidom, helper\nprint(helper.x)",
		"files":      "import os\nfor i in range(20):\n  with open(f'f{i}', 'w') as f: f.write('x' * i * 100)\nprint(sum(len(open(f'f{i}').read()) for i in range(20)))\nfor i in range(20): os.remove(f'f{i}')",
		"stdin":      "import sys\nprint(len(sys.stdin.read()))",
		"memory":     "x = []\ntry:\n  while True: x.append(bytearray(1 << 20))\nexcept MemoryError: n = len(x); x = None; print(n)",
		"fill":       "b = bytearray(40 << 20)\nfor i in range(5): b[:] = bytes([i]) * len(b)\nprint(b[-1])",
		"exit":       "import atexit, sys\natexit.register(print, 'bye')\nsys.exit(3)",
		"out of cpu": "n = 0\nwhile True: n += 1",
		"threads":    "import threading\nthreading.Thread(target=print).start()",
	},
	"node": {
		"hello":      "console.log(1)",
		"objects":    "console.log({ a: [1, { b: new Map([[1, 2]]) }], c: 'x'.repeat(20) }, [..._('x')]); function* _(x) { yield x }",
		"error":      "function f(n) { return n ? f(n - 1) : null.x } f(30)",
		"recursion":  "const f = () => f(); f()",
		"json":       "const x = []; for (let i = 0; i < 500; i++) x.push({ ['k' + i]: [i, `${i / 3}`, null] }); console.log(JSON.stringify(JSON.parse(JSON.stringify(x))).length)",
		"sort":       "console.log([...Array(1009).keys()].map((i) => i * 7919 % 1009).sort((a, b) => a % 7 - b % 7 || a - b).slice(0, 9))",
		"big":        "console.log((7n ** 3000n % 1000007n).toString(), (3n ** 2000n).toString().length)",
		"files":      "const fs = require('fs'); for (let i = 0; i < 20; i++) fs.writeFileSync('f' + i, 'x'.repeat(i * 100)); let n = 0; for (let i = 0; i < 20; i++) { n += fs.readFileSync('f' + i, 'utf8').length; fs.unlinkSync('f' + i) } console.log(n)",
		"promises":   "(async () => { for (let i = 0; i < 100; i++) await i; console.log('done') })()",
		"memory":     "const x = []; for (;;) x.push(new Uint8Array(1 << 20).fill(1))",
		"out of cpu": "let n = 0; for (;;) n++",
	},
}

// observe is all that a program shows of itself.
func observe(s *sandbox, e *Engine, interpreter, file, source string) out {
	s.t.Helper()
	p := s.program(interpreter, file, source)
	p.Stdin = strings.NewReader(strings.Repeat("line\n", 100))
	p.MemoryBytes = 96 << 20
	p.FuelLimit = 2_000_000_000
	o := s.runOn(e, p)
	o.WallTime = 0
	if o.Err != nil {
		o.stderr += o.Err.Error()
		o.Err = nil
	}
	return o
}

// short is an outcome for an error message.
func short(o out) string {
	return fmt.Sprintf("code %d, %s, fuel %d, peak %d, limited %v, %d bytes %.60q, %d bytes %.200q",
		o.Code, o.Reason, o.Fuel, o.PeakMemoryBytes, o.MemoryLimited, len(o.stdout), o.stdout, len(o.stderr), o.stderr)
}

// TestRunsAreTheSame holds every way in which a run can be started, alone or among
// others, to the same output, ending, peak of memory and fuel.
func TestRunsAreTheSame(t *testing.T) {
	cache := linkedCache(t)
	choose := func(cow bool) func(*Engine) {
		return func(e *Engine) {
			e.host.Choose = func(*region.Pool, *region.Image) region.Choice { return region.Choice{COW: cow} }
		}
	}
	var engines []*Engine
	var names []string
	add := func(name string, cfg Config, set func(*Engine)) {
		cfg.CacheDir = cache
		e := newEngine(t, cfg)
		set(e)
		for _, h := range hello {
			if installed(h.interpreter) {
				if m := machineOf(t, e, h.pack); m.Cached() == (len(engines) == 0) {
					t.Errorf("%s: the image of %s is from the disk: %v", name, h.interpreter, m.Cached())
				}
			}
		}
		engines, names = append(engines, e), append(names, name)
	}
	add("booted, copied", Config{Parked: -1}, choose(false))
	add("loaded, copied", Config{Parked: -1}, choose(false))
	add("loaded, mapped", Config{Parked: -1}, choose(true))
	add("parked, mapped", Config{Parked: 2}, choose(true))
	add("parked, copied", Config{Parked: 2}, choose(false))

	files := map[string]string{"python3": "main.py", "node": "main.js"}
	for interpreter, programs := range repeatable {
		if !installed(interpreter) || testing.Short() { // only neighbours run at once
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(programs)) {
			t.Run(interpreter+"/"+name, func(t *testing.T) {
				s := newSandbox(t)
				s.file("helper.py", "x = 1\n")
				var want out
				check := func(how string, o out) {
					t.Helper()
					if want.Fuel == 0 {
						want = o
					}
					if o != want {
						t.Errorf("%s: %s\nbefore: %s", how, short(o), short(want))
					}
				}
				for i, e := range append(engines, engines[0]) {
					check(append(names, names[0])[i], observe(s, e, interpreter, files[interpreter], programs[name]))
				}
				if want.Fuel <= 0 {
					t.Errorf("no fuel was used: %+v", want)
				}
			})
		}
	}
	t.Run("neighbours", func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		for interpreter, programs := range repeatable {
			if !installed(interpreter) {
				continue
			}
			for name, source := range programs {
				wg.Go(func() {
					s := newSandbox(t)
					s.file("helper.py", "x = 1\n")
					alone := engines[3]
					first := observe(s, alone, interpreter, files[interpreter], source)
					if o := observe(s, alone, interpreter, files[interpreter], source); o != first {
						t.Errorf("%s/%s among others: %s\nbefore: %s", interpreter, name, short(o), short(first))
					}
				})
			}
		}
	})
}

// installed tells whether an interpreter's pack is.
func installed(interpreter string) bool {
	return slices.ContainsFunc(shared.Languages(), func(l Language) bool { return l.Interpreter == interpreter && l.Missing == "" })
}

// linkedCache returns a cache directory with the code of the tests' and no images.
func linkedCache(t *testing.T) string {
	t.Helper()
	for _, h := range hello {
		if installed(h.interpreter) {
			machineOf(t, shared, h.pack) // so that there is something to link
		}
	}
	from, to := shared.cfg.CacheDir, filepath.Join(t.TempDir(), "cache")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch ext := filepath.Ext(rel); {
		case errors.Is(err, fs.ErrNotExist):
			return nil // tests of other packages fill the cache, too
		case err != nil || ext == ".image" || ext == ".lock" || ext == ".tmp":
			return err
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		}
		if err := os.Link(path, filepath.Join(to, rel)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Skipf("the code cache cannot be linked: %v", err)
	}
	return to
}

// A run that is stopped by its fuel is stopped at one place, and what it wrote until
// then is the same.
func TestFuelStopsAtOnePlace(t *testing.T) {
	need(t, "python3")
	s := newSandbox(t)
	var want out
	for range 5 {
		p := s.program("python3", "main.py", "i = 0\nwhile True:\n  i += 1\n  print(i, flush=True)")
		p.FuelLimit = 300_000_000
		o := s.run(context.Background(), p)
		o.WallTime, o.Err = 0, nil
		if want.Fuel == 0 {
			want = o
		}
		if o != want || o.Reason != ReasonCPU || len(o.stdout) < 1000 {
			t.Fatalf("%s\nbefore: %s", short(o), short(want))
		}
	}
}

// The seed of string hashes is the image's, another one in each cache directory, and a
// program that asks for one of its own gets it.
func TestPythonHashSeed(t *testing.T) {
	need(t, "python3")
	s := newSandbox(t)
	p := s.program("python3", "main.py", "print(hash('x'))")
	hash := func(e *Engine, seed string) string {
		t.Helper()
		p := p
		if seed != "" {
			p.Env = map[string]string{"PYTHONHASHSEED": seed}
		}
		o := s.runOn(e, p)
		if o.Code != 0 {
			t.Fatal(short(o))
		}
		return o.stdout
	}
	if a, b := hash(shared, ""), hash(shared, ""); a != b {
		t.Errorf("two runs from one image: %s, %s", a, b)
	}
	if a, b := hash(shared, ""), hash(newEngine(t, Config{CacheDir: linkedCache(t)}), ""); a == b {
		t.Errorf("two images: %s, %s", a, b)
	}
	if a, b := hash(shared, "7"), hash(shared, "7"); a != b {
		t.Errorf("one seed: %s, %s", a, b)
	}
	if a, b := hash(shared, "random"), hash(shared, "random"); a == b {
		t.Errorf("random seeds: %s, %s", a, b)
	}
}
