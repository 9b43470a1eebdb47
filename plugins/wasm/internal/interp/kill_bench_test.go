package interp

import (
	"slices"
	"testing"
	"time"
)

// killShapes are programs that print "started" and would not end, by the ways in which
// they keep the processor, or do not.
var killShapes = []struct{ name, interpreter, file, source string }{
	{"loop/py", "python3", "main.py", "print('started')\nwhile True: pass"},
	{"loop/js", "node", "main.js", "console.log('started'); for (;;);"},
	{"loop/bash", "bash", "main.sh", "echo started; while :; do :; done"},
	{"calls/py", "python3", "main.py", "print('started')\ndef f(n): return f(n - 1) + f(n - 1) if n else 1\nf(90)"},
	{"regex/py", "python3", "main.py", "import re\nprint('started')\nre.match('(a+)+$', 'a' * 40 + 'b')"},
	{"regex/js", "node", "main.js", "console.log('started'); /^(a+)+$/.test('a'.repeat(40) + 'b')"},
	{"bigint/py", "python3", "main.py", "print('started')\nx = 7 ** (10 ** 7)"},
	{"copies/py", "python3", "main.py", "b = bytearray(50 << 20)\nc = bytearray(50 << 20)\nprint('started')\nwhile True: b[:] = c"},
	{"fills/js", "node", "main.js", "const a = new Uint8Array(50 << 20); console.log('started'); for (;;) a.fill(1)"},
	{"allocations/py", "python3", "main.py", "print('started')\nwhile True: bytearray(100 << 20)"},
	{"output/py", "python3", "main.py", "import os\nprint('started')\nb = bytes(100 << 20)\nwhile True: os.write(1, b)"},
	{"files/py", "python3", "main.py", "print('started')\nwhile True: open('f', 'w').close()"},
	{"sleep/py", "python3", "main.py", "import time\nprint('started')\ntime.sleep(1e6)"},
	{"input/py", "python3", "main.py", "import sys\nprint('started')\nsys.stdin.read()"},
	{"query/sql", "sqlite3", "main.sql", "select 'started'; with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n;"},
	{"loop/php", "php", "main.php", "<?php echo 'started'; for (;;);"},
	{"loop/rb", "ruby", "main.rb", "puts 'started'\nloop {}"},
	{"pipeline/bash", "bash", "main.sh", "echo started; yes | cat > /dev/null"},
}

// BenchmarkKill measures how long after its deadline the run of a program returns that
// does not end by itself. Each iteration kills twenty.
func BenchmarkKill(b *testing.B) {
	const kills, after = 20, 30 * time.Millisecond
	for _, k := range killShapes {
		b.Run(k.name, func(b *testing.B) {
			need(b, k.interpreter)
			s := newSandbox(b)
			p := s.program(k.interpreter, k.file, k.source)
			if k.interpreter == "sqlite3" {
				p.Argv = []string{"sqlite3", ":memory:", ".read " + EntryDir + "/" + k.file}
			}
			kill := func() (out, time.Duration) {
				blocked, unblock := blockedReader()
				defer unblock()
				p.Stdin = blocked
				return s.runAndKill(p, after)
			}
			kill() // loads it
			var late []time.Duration
			for b.Loop() {
				for range kills {
					o, l := kill()
					if o.Reason != ReasonTimeout || o.Code != 137 {
						b.Fatalf("%s, code %d, %q", o.Reason, o.Code, o.stderr)
					}
					late = append(late, l)
				}
			}
			b.ReportMetric(0, "ns/op") // most of it is the time until the deadline
			slices.Sort(late)
			for name, at := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
				b.ReportMetric(float64(late[int(at*float64(len(late)-1))].Microseconds())/1000, name+"-late-ms")
			}
		})
	}
}
