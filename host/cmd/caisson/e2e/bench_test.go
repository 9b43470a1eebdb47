package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These benchmarks are what a user of the daemon sees: everything between a POST
// and its reply, the ledger included. Each stands beside the native interpreter,
// started once per run.

// latencies collects how long the operations of a benchmark took.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) time(f func()) {
	began := time.Now()
	f()
	d := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

// report gives the benchmark its percentiles in place of the mean.
func (l *latencies) report(b *testing.B) {
	slices.Sort(l.all)
	at := func(q float64) float64 {
		i := int(math.Ceil(q*float64(len(l.all)))) - 1
		return l.all[max(i, 0)].Seconds() * 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

// benchServer is a server without limits that a benchmark would run into, with
// something run in each language.
func benchServer(b *testing.B) *server {
	p := newPlace(b, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0")
	s := p.serve(b, "--config", p.config(b, "queue: {tenant_waiting: 256}\n")).ready(b)
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	b.Cleanup(func() { s.stop(b) })
	// Further interpreters compile in the background; until they have, nothing that is
	// measured would mean anything.
	for _, lang := range []string{"py", "js", "rb", "php"} {
		s.eventually(b, lang+" runs or is not installed", func() bool {
			r, err := s.request(context.Background(), http.MethodPost, "/v1/exec", s.key, `{"lang":"`+lang+`","code":"0"}`)
			return err == nil && (r.status == http.StatusOK || r.status == http.StatusBadRequest)
		})
	}
	return s
}

// bench runs a program and wants it to succeed.
func (s *server) bench(b *testing.B, lang, code string) {
	body, err := json.Marshal(map[string]string{"lang": lang, "code": code})
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.request(context.Background(), http.MethodPost, "/v1/exec", s.key, string(body))
	if err != nil || r.status != http.StatusOK {
		b.Error(err, r.status, r.body)
		return
	}
	var a answer
	if err := json.Unmarshal([]byte(r.body), &a); err != nil || a.Code == nil || *a.Code != 0 {
		b.Error(err, r.body)
	}
}

// native starts an interpreter on a program, and skips where there is none.
func native(b *testing.B, program, flag, code string) func() {
	// What is on PATH may be a script that looks for the interpreter.
	self := map[string]string{"python3": "import sys; print(sys.executable)", "node": "console.log(process.execPath)"}
	out, err := exec.Command(program, flag, self[program]).Output()
	if err != nil {
		b.Skip(err)
	}
	path := strings.TrimSpace(string(out))
	dir := b.TempDir()
	return func() {
		cmd := exec.Command(path, flag, code)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Errorf("%v: %s", err, out)
		}
	}
}

// work is what programs do, in pairs that do the same.
var work = []struct{ name, py, js string }{
	{"print", "print(1)", "console.log(1)"},
	{"import-json", "import json; print(json.dumps({'a': [1, 2]}))", "console.log(JSON.stringify({a: [1, 2]}))"},
	{
		"loop-1e6", "s = 0\nfor i in range(1000000): s += i & 7\nprint(s)",
		"let s = 0; for (let i = 0; i < 1000000; i++) s += i & 7; console.log(s)",
	},
	{
		"fib-27", "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(27))",
		"function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } console.log(fib(27))",
	},
	{
		"json-1MB", "import json\nd = [{'id': i, 'name': 'n%d' % i, 'tags': ['a', 'b']} for i in range(20000)]\nprint(len(json.dumps(json.loads(json.dumps(d)))))",
		"const d = Array.from({length: 20000}, (_, i) => ({id: i, name: 'n' + i, tags: ['a', 'b']})); console.log(JSON.stringify(JSON.parse(JSON.stringify(d))).length)",
	},
	{
		"regex", "import re\nt = 'the quick brown fox 123 jumps over 4567 lazy dogs ' * 2000\nprint(len(re.findall(r'(\\w+)\\s(\\d+)', t)), len(re.sub(r'[aeiou]+', '*', t)))",
		"const t = 'the quick brown fox 123 jumps over 4567 lazy dogs '.repeat(2000); console.log([...t.matchAll(/(\\w+)\\s(\\d+)/g)].length, t.replace(/[aeiou]+/g, '*').length)",
	},
}

// BenchmarkRequest: one client, one run after another.
func BenchmarkRequest(b *testing.B) {
	s := benchServer(b)
	for _, w := range work {
		for _, l := range []struct{ lang, code, native, flag string }{
			{"py", w.py, "python3", "-c"},
			{"js", w.js, "node", "-e"},
		} {
			run := func(kind string, f func(b *testing.B) func()) {
				b.Run(fmt.Sprintf("%s/%s/%s", w.name, l.lang, kind), func(b *testing.B) {
					op := f(b)
					op()
					var d latencies
					for b.Loop() {
						d.time(op)
					}
					d.report(b)
				})
			}
			run("caisson", func(b *testing.B) func() { return func() { s.bench(b, l.lang, l.code) } })
			run("native", func(b *testing.B) func() { return native(b, l.native, l.flag, l.code) })
		}
	}
}

// BenchmarkClients: many clients at once, each with its next run as soon as the
// last is answered. RSS is that of the server's whole process tree at the end; what
// fewer clients made it take is part of it.
func BenchmarkClients(b *testing.B) {
	s := benchServer(b)
	for _, clients := range []int{1, 8, 32, 128} {
		b.Run(strconv.Itoa(clients)+"/caisson", func(b *testing.B) {
			parallel(b, clients, func() { s.bench(b, "py", "print(1)") })
			b.ReportMetric(float64(s.residentBytes(b))/(1<<20), "RSS-MiB")
		})
		b.Run(strconv.Itoa(clients)+"/native", func(b *testing.B) {
			parallel(b, clients, native(b, "python3", "-c", "print(1)"))
		})
	}
}

func parallel(b *testing.B, clients int, op func()) {
	var d latencies
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				d.time(op)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	d.report(b)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkIdleSessions: what ten thousand sessions cost that nobody uses.
func BenchmarkIdleSessions(b *testing.B) {
	const sessions, parallel = 10_000, 4
	s := benchServer(b)
	use := func(n int) {
		var wg sync.WaitGroup
		for range parallel {
			wg.Go(func() {
				for range n / parallel {
					s.bench(b, "js", "0")
				}
			})
		}
		wg.Wait()
	}
	for b.Loop() {
		// What any load costs, whether sessions remain or not, is no session's.
		use(500)
		before := s.residentBytes(b)
		use(sessions)
		b.ReportMetric(float64(s.residentBytes(b)-before)/(1<<20), "RSS-MiB")
	}
	b.ReportMetric(sessions, "sessions")
	b.ReportMetric(0, "ns/op")
}

// residentBytes is the memory of the server's process tree.
func (s *server) residentBytes(b *testing.B) int64 {
	var sum int64
	for _, pid := range s.processes() {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err != nil {
			continue // it has ended
		}
		_, rest, ok := bytes.Cut(status, []byte("VmRSS:"))
		fields := strings.Fields(string(rest[:min(len(rest), 64)]))
		if !ok || len(fields) == 0 {
			continue
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += kib << 10
	}
	if sum == 0 {
		b.Fatal("the server has no processes")
	}
	return sum
}
