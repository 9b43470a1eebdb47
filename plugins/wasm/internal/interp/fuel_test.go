package interp

import (
	"context"
	"testing"
	"time"
)

// fuelPrograms has, for each interpreter, a program that computes and one that waits.
var fuelPrograms = map[string]struct{ file, busy, idle, endless string }{
	"python3": {
		"main.py", "n = 0\nwhile n < 30000: n += 1\nprint(n)", "import time\ntime.sleep(0.05)",
		"try:\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass\nfinally: print('never')",
	},
	"node": {
		"main.js", "let n = 0; while (n < 30000) n++; console.log(n)", "setTimeout(() => {}, 50)",
		"for (;;) try { for (;;); } finally { console.log('never') }",
	},
}

func TestFuelIsExact(t *testing.T) {
	for interpreter, p := range fuelPrograms {
		t.Run(interpreter, func(t *testing.T) {
			need(t, interpreter)
			fuel := func(source string) int64 {
				s := newSandbox(t)
				o := s.run(context.Background(), s.program(interpreter, p.file, source))
				if o.Code != 0 || o.Fuel <= 0 {
					t.Fatalf("%+v", o)
				}
				return o.Fuel
			}
			busy, idle := fuel(p.busy), fuel(p.idle)
			for range 4 {
				if again := fuel(p.busy); again != busy {
					t.Errorf("used %d, then %d", busy, again)
				}
			}
			// Waiting is free, and all but free is what it takes to begin to wait.
			if idle > busy/2 {
				t.Errorf("sleeping used %d, computing %d", idle, busy)
			}
		})
	}
}

func TestFuelLimit(t *testing.T) {
	for interpreter, prog := range fuelPrograms {
		t.Run(interpreter, func(t *testing.T) {
			need(t, interpreter)
			const limit = 1_000_000_000
			var used int64
			for range 2 {
				s := newSandbox(t)
				p := s.program(interpreter, prog.file, prog.endless)
				p.FuelLimit = limit
				o := s.run(context.Background(), p)
				if o.Reason != ReasonCPU || o.Code != 137 || o.Err == nil || o.stdout != "" {
					t.Errorf("%+v", o)
				}
				if o.Fuel < limit || o.Fuel > limit+limit/100 || used != 0 && o.Fuel != used {
					t.Errorf("used %d of %d, before that %d", o.Fuel, limit, used)
				}
				used = o.Fuel
			}
			s := newSandbox(t)
			p := s.program(interpreter, prog.file, prog.busy)
			p.FuelLimit = limit
			s.expect(s.run(context.Background(), p), 0, "30000\n", "")
			p.FuelLimit = -1
			if _, err := shared.Run(context.Background(), p); err == nil {
				t.Error("a negative limit was accepted")
			}
		})
	}
}

// What the host does is charged: these do little themselves and much in the host.
func TestHostWorkIsCharged(t *testing.T) {
	need(t, "python3")
	s := newSandbox(t)
	s.file("big", string(make([]byte, 8<<20)))
	base := s.python("f = open('big', 'rb', 0)\nb = bytearray(8 << 20)").Fuel
	read := s.python("f = open('big', 'rb', 0)\nb = bytearray(8 << 20)\nf.readinto(b)").Fuel
	if got := read - base; got < 8<<20 {
		t.Errorf("reading 8 MiB used %d", got)
	}
	few := s.python("import os\nfor i in range(10): os.path.exists('a/b/c/d/e/f')").Fuel
	many := s.python("import os\nfor i in range(1010): os.path.exists('a/b/c/d/e/f')").Fuel
	if got := (many - few) / 1000; got < 100_000 {
		t.Errorf("looking for a path of six names used %d", got)
	}
}

func TestFuelRate(t *testing.T) {
	if Fuel(3*time.Second) != 3*FuelPerSecond || CPUTime(FuelPerSecond) != time.Second || Fuel(1<<62) <= 0 {
		t.Error("fuel and time do not match")
	}
}

// BenchmarkFuelRate says how much fuel a second of this machine burns, beside the
// nominal rate.
func BenchmarkFuelRate(b *testing.B) {
	for name, source := range map[string]string{
		"loop":  "n = 0\nwhile n < 1000000: n += 1",
		"calls": "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(22)",
		"big":   "x = 7 ** 40000\nfor i in range(20): x * x",
		"fill":  "for i in range(100): bytearray(8 << 20)",
		"regex": "import re\nfor i in range(30): re.match('(a?){14}a{14}', 'a' * 14)",
	} {
		b.Run(name, func(b *testing.B) {
			need(b, "python3")
			s := newSandbox(b)
			p := s.program("python3", "main.py", source)
			var fuel int64
			for b.Loop() {
				o := s.run(context.Background(), p)
				if o.Code != 0 {
					b.Fatalf("%+v", o)
				}
				fuel += o.Fuel
			}
			b.ReportMetric(float64(fuel)/b.Elapsed().Seconds()/1e6, "Munits/s")
			b.ReportMetric(float64(fuel)/float64(b.N)/1e6, "Munits/op")
		})
	}
}

// What the shortest program costs is what everybody pays for each run. It says more
// about that than a time, and does not depend on the machine.
func TestHelloIsCheap(t *testing.T) {
	most := map[string]int64{"python3": 2_000_000, "node": 3_000_000}
	for _, h := range hello {
		t.Run(h.interpreter, func(t *testing.T) {
			need(t, h.interpreter)
			s := newSandbox(t)
			o := s.runOn(shared, s.program(h.interpreter, h.file, h.source))
			if o.Fuel > most[h.interpreter] {
				t.Errorf("%d units", o.Fuel)
			}
			t.Logf("%d units", o.Fuel)
		})
	}
}
