package interp

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// pythonWork is what programs of some kind do most. Each takes milliseconds natively.
var pythonWork = []struct{ name, source string }{
	{"hello", "print(1)"},
	{"fib", "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(24)"},
	{"loop", "t = 0\nfor i in range(1000000): t += i & 7"},
	{"json", "import json\nd = {str(i): [i, i / 3, str(i), None, {'a': [True] * 5}] for i in range(2000)}\nfor i in range(5): json.loads(json.dumps(d))"},
	{"regex", "import re\ntext = 'key%d = value-%d; ' * 3000\nfor i in range(5): re.findall(r'(\\w+) = ([\\w-]+);', text % tuple(range(6000)))"},
	{"sort", "import random\nr = random.Random(1)\nx = [r.random() for i in range(100000)]\nx.sort()\nsorted(x, key=lambda v: -v)"},
	{"float", "x = 0.5\nfor i in range(500000): x = 3.7 * x * (1.0 - x)"},
	{"objects", "class P:\n    def __init__(self, x): self.x = x\n    def get(self): return self.x\nsum(P(i).get() for i in range(200000))"},
	{"dict", "d = {}\nfor i in range(300000): d[i % 5000] = d.get(i % 5000, 0) + i"},
	{"bigint", "x = 3 ** 20000\nfor i in range(20): x = x * 7 % (10 ** 9000 + 1)"},
	{"text", "w = ' '.join(str(i) for i in range(100000)).split()\nc = {}\nfor x in w: c[x[:3].upper()] = c.get(x[:3].upper(), 0) + len(x.replace('1', 'one'))"},
}

// BenchmarkPythonBuilds runs the same programs in the build of CPython that everybody
// has, in the one that was built on this machine if there is one, and natively, in
// turns, so that what else the machine does hits all alike.
func BenchmarkPythonBuilds(b *testing.B) {
	need(b, "python3")
	set := packs.Locate(packDir)
	type build struct {
		name string
		run  func(s *sandbox, p Program, source string)
	}
	in := func(set *packs.Set) func(*sandbox, Program, string) {
		e, err := New(Config{Packs: set, CacheDir: shared.cfg.CacheDir})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close(context.Background()) })
		return func(s *sandbox, p Program, _ string) {
			if res, err := e.Run(context.Background(), p); err != nil || res.Code != 0 {
				s.t.Fatalf("%+v, %v", res, err)
			}
		}
	}
	builds := []build{{"fetched", in(set.Fetched())}}
	if set.Built(packs.CPython) != nil {
		builds = append(builds, build{"built", in(set)})
	}
	if python, err := exec.LookPath("python3"); err == nil {
		builds = append(builds, build{"native", func(s *sandbox, _ Program, source string) {
			if err := exec.Command(python, "-I", "-c", source).Run(); err != nil {
				s.t.Fatal(err)
			}
		}})
	}
	for _, w := range pythonWork {
		b.Run(w.name, func(b *testing.B) {
			s := newSandbox(b)
			p := s.program("python3", "main.py", w.source)
			took := make([][]time.Duration, len(builds))
			for _, v := range builds {
				v.run(s, p, w.source)
			}
			for b.Loop() {
				for i, v := range builds {
					start := time.Now()
					v.run(s, p, w.source)
					took[i] = append(took[i], time.Since(start))
				}
			}
			for i, v := range builds {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1000, v.name+"-ms")
			}
			b.ReportMetric(0, "ns/op") // of all together, which says nothing
		})
	}
}
