package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// soaked are the programs of TestSoakPrograms: of each language one that is well, and
// what is out to harm. A shape may end in any of stops; empty is only StopExit.
var soaked = []struct {
	language, file string
	steps          [][]string
	shapes         []shape
}{
	{"py", "main.py", [][]string{{"python3", "{dir}/main.py"}}, []shape{
		{source: "import json; print(json.dumps([1]))", stdout: "[1]\n"},
		{source: "open('f','w').write('x'); import os; print(os.listdir())", stdout: "['f']\n"},
		{source: "1/0", code: 1},
		{source: "while True: pass", stops: endless},
		{source: "b = bytes(1 << 20)\nimport os\nwhile True: os.write(1, b)", stops: endless},
		{source: "x = []\nwhile True: x.append(bytearray(1 << 20))", code: 1},
		{source: "import re; re.match('(a+)+$', 'a' * 40 + 'b')", stops: endless},
		{source: "n = 0\nwhile True:\n  n += 1\n  open(f'f{n % 500}', 'w').write('x' * 5000)", stops: endless},
		{source: "import time; time.sleep(1000)", stops: endless},
		{source: "import os\nd = '.'\ntry:\n  while True: d += '/d'; os.mkdir(d)\nexcept OSError as e: print(e.errno)", stdout: "37\n"},
	}},
	{"js", "main.js", [][]string{{"qjs", "{dir}/main.js"}}, []shape{
		{source: "console.log([1].toSorted())", stdout: "[ 1 ]\n"},
		{source: "for (;;);", stops: endless},
		{source: "const f = () => f(); f()", code: 1},
		{source: "const x = []; for (;;) x.push(new Uint8Array(1 << 20))", code: 1},
		{source: "setInterval(() => {}, 1)", stops: endless},
	}},
	{"ts", "main.ts", [][]string{{"qjs", "{dir}/main.ts"}}, []shape{
		{source: "const n: number = 1; console.log(n)", stdout: "1\n"},
		{source: "let x: = 1", code: 1},
	}},
	{"sql", "main.sql", [][]string{{"sqlite3", "-bail", "-batch", ":memory:", ".read {dir}/main.sql"}}, []shape{
		{source: "select 1;", stdout: "1\n"},
		{source: "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n;", stops: endless},
	}},
	{"bash", "main.sh", [][]string{{"bash", "{dir}/main.sh"}}, []shape{
		{source: "echo 1 | tr 1 2", stdout: "2\n"},
		{source: "python3 -c 'print(1)'", stdout: "1\n"},
		{source: "while :; do :; done", stops: endless},
		{source: "x=x; while :; do x=$x$x; done", stops: []backend.StopReason{backend.StopMemory, backend.StopTimeout, backend.StopCPU}},
		{source: "yes", stops: endless},
		{source: "f() { f | f & }; f; wait", stops: []backend.StopReason{backend.StopTimeout, backend.StopMemory, backend.StopCPU, backend.StopExit}, anyCode: true},
	}},
	{"php", "main.php", [][]string{{"php", "{dir}/main.php"}}, []shape{
		{source: "<?php echo 1, PHP_EOL;", stdout: "1\n"},
		{source: "<?php for (;;);", stops: endless},
	}},
	{"rb", "main.rb", [][]string{{"ruby", "{dir}/main.rb"}}, []shape{
		{source: "puts 1", stdout: "1\n"},
		{source: "loop {}", stops: endless},
		{source: "def f = f; f", code: 1},
	}},
	{"c", "main.c", [][]string{{"clang", "-o", "{dir}/a", "{dir}/main.c"}, {"{dir}/a"}}, []shape{
		{source: "#include <stdio.h>\nint main(void) { puts(\"1\"); }", stdout: "1\n"},
		{source: "int main(void) { for (;;); }", stops: endless},
	}},
}

// shape is one program and how it has to end.
type shape struct {
	source, stdout string
	code           int
	anyCode        bool
	stops          []backend.StopReason
}

// endless programs are stopped by their time.
var endless = []backend.StopReason{backend.StopTimeout}

// TestSoakPrograms runs programs of every language that is installed, well and hostile
// ones side by side, some cancelled, round after round for the time in CAISSON_SOAK.
// Each has to end as it should, and what the process holds between rounds must not
// grow: memory, descriptors, goroutines, child processes.
func TestSoakPrograms(t *testing.T) {
	needPacks(t)
	text := os.Getenv("CAISSON_SOAK")
	if text == "" {
		t.Skip("CAISSON_SOAK is not set: make soak runs this")
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal("CAISSON_SOAK: ", err)
	}
	b, config := openHere(t)
	if err := b.OpenConfig(t.Context(), "c", config); err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, b: b}
	s.installed()
	const least = 9 // rounds: enough to see a trend
	var seen []holding
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for end := time.Now().Add(span); len(seen) < least || time.Now().Before(end); {
		s.round(rand.New(rand.NewPCG(seed, uint64(len(seen)))))
		h := held(t)
		seen = append(seen, h)
		t.Logf("after %d programs: %v", s.runs.Load(), h)
		if full := s.full.Load(); full > s.runs.Load()/20 {
			t.Errorf("%d programs found no room", full)
		}
		if t.Failed() {
			return
		}
	}
	steady(t, seen)
}

// soak is what the rounds have in common.
type soak struct {
	t     *testing.T
	b     backend.Backend
	have  map[string]bool
	runs  atomic.Int64
	full  atomic.Int64 // runs that were refused for lack of room
	boxes atomic.Int64
}

// installed finds which languages are there and waits until they are compiled.
func (s *soak) installed() {
	info, err := s.b.Info(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.have = map[string]bool{}
	for _, l := range info.Languages {
		s.have[l.ID] = l.Missing == ""
	}
	for _, l := range soaked {
		if !s.have[l.language] {
			s.t.Logf("%s is not installed", l.language)
			continue
		}
		for { // it is being compiled as long as that is the answer
			err := s.one(l.file, l.steps, l.shapes[0], 0)
			if backend.KindOf(err) != backend.KindCapacity {
				break
			}
		}
	}
}

// round runs every shape once, a few at a time, in an order of its own.
func (s *soak) round(rng *rand.Rand) {
	type work struct {
		file   string
		steps  [][]string
		shape  shape
		cancel time.Duration
	}
	var list []work
	for _, l := range soaked {
		for _, sh := range l.shapes {
			if s.have[l.language] {
				list = append(list, work{l.file, l.steps, sh, 0})
				list = append(list, work{l.file, l.steps, sh, time.Duration(1 + rng.IntN(int(50*time.Millisecond)))})
			}
		}
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	queue := make(chan work)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for w := range queue {
				if err := s.one(w.file, w.steps, w.shape, w.cancel); backend.KindOf(err) == backend.KindCapacity {
					s.full.Add(1)
				} else if err != nil {
					s.t.Errorf("%s %q: %v", w.file, w.shape.source, err)
				}
			}
		})
	}
	for _, w := range list {
		queue <- w
	}
	close(queue)
	wg.Wait()
}

// one runs a program in a sandbox of its own and checks how it ended. With cancel it
// is cancelled after that time, and may end in any way.
func (s *soak) one(file string, steps [][]string, sh shape, cancel time.Duration) error {
	ctx := s.t.Context()
	id := fmt.Sprint("s", s.boxes.Add(1))
	sb, err := s.b.Create(ctx, backend.CreateSpec{
		Config: "c", Session: id, Metadata: backend.Metadata{Config: "c", Session: id, Tenant: "acme"},
		Limits: backend.Limits{DiskBytes: 16 << 20, DiskFiles: 2000},
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := s.b.Delete(ctx, sb.Ref); err != nil {
			s.t.Errorf("delete: %v", err)
		}
	}()
	spec := backend.RunSpec{
		Ref: sb.Ref, RunID: id, Program: backend.Program{File: file, Source: []byte(sh.source)},
		Limits: backend.Limits{Wall: 20 * time.Second, MemoryBytes: 192 << 20},
	}
	if len(sh.stops) > 0 {
		spec.Limits.Wall = time.Second
	}
	for _, argv := range steps {
		spec.Steps = append(spec.Steps, backend.Step{Name: "run", Argv: argv})
	}
	if cancel > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cancel)
		defer stop()
	}
	var out recorded
	r, err := s.b.Run(ctx, spec, &out)
	ctx = s.t.Context()
	s.runs.Add(1)
	if cancel > 0 {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	right := r.Stop == backend.StopExit && len(sh.stops) == 0
	for _, stop := range sh.stops {
		right = right || r.Stop == stop
	}
	if r.Stop == backend.StopExit && !sh.anyCode {
		right = right && r.ExitCode == sh.code
	}
	if !right || sh.stdout != "" && out.stdout.String() != sh.stdout {
		s.t.Errorf("%s %q: %s, code %d, %.100q, %.300q", file, sh.source, r.Stop, r.ExitCode, out.stdout.String(), out.stderr.String())
	}
	return nil
}

// holding is what a process has.
type holding struct {
	resident                          int64 // bytes
	descriptors, goroutines, children int
}

func (h holding) String() string {
	return fmt.Sprintf("%d MiB resident, %d descriptors, %d goroutines, %d children",
		h.resident>>20, h.descriptors, h.goroutines, h.children)
}

// held looks at this process, once what is being given back has been.
func held(t *testing.T) holding {
	t.Helper()
	debug.FreeOSMemory()
	var last holding
	for same := 0; same < 5; { // sandboxes and instances are made ahead, and settle
		time.Sleep(50 * time.Millisecond)
		h := holding{resident: residentOf(t, "self"), goroutines: runtime.NumGoroutine()}
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("the system does not tell")
		}
		h.descriptors = len(files)
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, f := range lists {
			b, _ := os.ReadFile(f)
			h.children += len(strings.Fields(string(b)))
		}
		if h.descriptors == last.descriptors && h.goroutines == last.goroutines && h.children == last.children {
			same++
		} else {
			same = 0
		}
		last = h
	}
	return last
}

// steady compares the last third of the rounds with the second: the first has what
// is made once.
func steady(t *testing.T, seen []holding) {
	t.Helper()
	third := len(seen) / 3
	most := func(part []holding, of func(holding) int64) int64 {
		var n int64
		for _, h := range part {
			n = max(n, of(h))
		}
		return n
	}
	for _, c := range []struct {
		name  string
		of    func(holding) int64
		slack func(before int64) int64
	}{
		{"bytes of memory", func(h holding) int64 { return h.resident }, func(n int64) int64 { return n/10 + 16<<20 }},
		{"descriptors", func(h holding) int64 { return int64(h.descriptors) }, func(int64) int64 { return 4 }},
		{"goroutines", func(h holding) int64 { return int64(h.goroutines) }, func(int64) int64 { return 4 }},
		{"children", func(h holding) int64 { return int64(h.children) }, func(int64) int64 { return 1 }},
	} {
		before, after := most(seen[third:2*third], c.of), most(seen[2*third:], c.of)
		if after > before+c.slack(before) {
			t.Errorf("%d %s, before it were %d: it grows", after, c.name, before)
		}
	}
}
