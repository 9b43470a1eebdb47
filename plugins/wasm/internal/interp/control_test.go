package interp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

type answerer func(ctx context.Context, c control.Call) (control.Reply, error)

// callable lets a program make calls until the test ends, or end is called.
func (s *sandbox) callable(p *Program, answer answerer) (end func()) {
	r := control.NewRun(s.t.Context(), control.Config{Call: answer, Gone: func(err error) { s.t.Errorf("gone: %v", err) }})
	s.t.Cleanup(r.Close)
	p.Control = r
	p.Env = map[string]string{control.EnvPath: guest.ControlPath, control.EnvCall: guest.ControlCommand}
	return r.Close
}

// after answers with the input after a while.
func after(d time.Duration) answerer {
	return func(ctx context.Context, c control.Call) (control.Reply, error) {
		select {
		case <-time.After(d):
			return control.Reply{Result: c.Input}, nil
		case <-ctx.Done():
			return control.Reply{}, ctx.Err()
		}
	}
}

// TestControlLanguages: every language opens the channel with what it has.
func TestControlLanguages(t *testing.T) {
	for _, c := range []struct{ interpreter, file, source string }{
		{"python3", "main.py", `
f = open('/dev/caisson-control', 'r+b', buffering=0)
f.write(b'{"id":"1","name":"n","input":{"a":1}}\n')
print(f.read(1000).decode(), end='')`},
		{"node", "main.js", `
const fs = require('fs')
if (!fs.existsSync(process.env.CAISSON_CONTROL)) throw new Error('absent')
const fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+'), b = Buffer.alloc(1000)
fs.writeSync(fd, '{"id":"1","name":"n","input":{"a":1}}\n')
process.stdout.write(b.subarray(0, fs.readSync(fd, b, 0, 1000, null)).toString())`},
		{"ruby", "main.rb", `
f = File.open(ENV['CAISSON_CONTROL'], 'r+b')
f.sync = true
f.write(%({"id":"1","name":"n","input":{"a":1}}\n))
IO.select([f], nil, nil, 10) or abort 'select'
print f.readpartial(1000)`},
		{"php", "main.php", `<?php
$f = fopen(getenv('CAISSON_CONTROL'), 'r+');
fwrite($f, '{"id":"1","name":"n","input":{"a":1}}' . "\n");
echo fgets($f);`},
		{"bash", "main.sh", `
echo "{\"id\":\"1\",\"result\":$("$CAISSON_CALL" n '{ "a" : 1 }')}"`},
	} {
		t.Run(c.interpreter, func(t *testing.T) {
			need(t, c.interpreter)
			s := newSandbox(t)
			p := s.program(c.interpreter, c.file, c.source)
			s.callable(&p, after(100*time.Millisecond))
			s.expect(s.run(t.Context(), p), 0, `{"id":"1","result":{"a":1}}`+"\n", "")
		})
	}
}

// TestControlOfC: a compiled program opens the channel, and poll waits for it.
func TestControlOfC(t *testing.T) {
	need(t, "clang")
	s := newSandbox(t)
	p := s.program("clang", "main.c", `
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
	const char *ask = "{\"id\":\"1\",\"name\":\"n\",\"input\":{\"a\":1}}\n";
	char b[1000];
	int fd = open(getenv("CAISSON_CONTROL"), O_RDWR);
	struct pollfd p = {fd, POLLIN, 0};
	if (write(fd, ask, strlen(ask)) != (ssize_t)strlen(ask)) return 1;
	if (poll(&p, 1, 0) != 0) return 2;
	if (poll(&p, 1, 10000) != 1) return 3;
	return write(1, b, read(fd, b, sizeof b)) < 0;
}`)
	p.Argv = []string{"clang", "-o", "/run/caisson/main", "/run/caisson/main.c"}
	s.expect(s.run(t.Context(), p), 0, "", "")
	p.Argv = []string{"/run/caisson/main"}
	s.callable(&p, after(200*time.Millisecond))
	s.expect(s.run(t.Context(), p), 0, `{"id":"1","result":{"a":1}}`+"\n", "")
}

// TestControlAbsent: without calls there is no channel, for nobody.
func TestControlAbsent(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("import os; print(os.path.exists('/dev/caisson-control'))"), 0, "False\n", "")
	need(t, "node")
	s.expect(s.run(t.Context(), s.program("node", "main.js", "console.log(require('fs').existsSync('/dev/caisson-control'))")), 0, "false\n", "")
	o := s.run(t.Context(), s.program("node", "main.js", "require('fs').openSync('/dev/caisson-control', 'r+')"))
	if o.Code == 0 || !strings.Contains(o.stderr, "ENOENT") {
		t.Errorf("%+v", o)
	}
	need(t, "bash")
	s.expect(s.run(t.Context(), s.program("bash", "main.sh", "caisson-call x; echo $?")), 0, "127\n", "bash: caisson-call: command not found\n")
}

// TestPythonWaitsForCalls: select and asyncio sleep beside the channel.
func TestPythonWaitsForCalls(t *testing.T) {
	s := newSandbox(t)
	need(t, "python3")
	p := s.program("python3", "main.py", `
import asyncio, json, os, select, time
f = open(os.environ["CAISSON_CONTROL"], "r+b", buffering=0)

def send(id):
    f.write(json.dumps({"id": id, "name": "n", "input": id}).encode() + b"\n")

send("a")
print(select.select([f], [], [], 0), select.select([f], [], [], 0.05)[0])
print(select.select([f], [], [])[0] == [f], f.read(1000))

g = open(os.environ["CAISSON_CONTROL"], "r+b", buffering=0)
g.write(b'{"id":"b","name":"n","input":1}\n')
print(select.select([f, g], [], [], 10)[0] == [g], g.read(1000))
g.close()

async def main():
    loop, ticks, answers = asyncio.get_running_loop(), [], asyncio.Queue()
    loop.add_reader(f.fileno(), lambda: answers.put_nowait(os.read(f.fileno(), 1000)))
    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)
    t = asyncio.create_task(tick())
    send("c")
    print(await answers.get(), len(ticks) > 3)
    t.cancel()
    loop.remove_reader(f.fileno())
asyncio.run(main())

os.set_blocking(f.fileno(), False)
print(f.read(10))
os.set_blocking(f.fileno(), True)
print(f.seekable(), os.fstat(f.fileno()).st_size)
`)
	s.callable(&p, after(200*time.Millisecond))
	s.expect(s.run(t.Context(), p), 0, `([], [], []) []
True b'{"id":"a","result":"a"}\n'
True b'{"id":"b","result":1}\n'
b'{"id":"c","result":"c"}\n' True
None
False 0
`, "")
}

// TestControlOfScripts: a script and the programs that it starts call at the same time.
func TestControlOfScripts(t *testing.T) {
	need(t, "bash")
	need(t, "python3")
	s := newSandbox(t)
	p := s.program("bash", "main.sh", `
cat > p.py <<'END'
f = open('/dev/caisson-control', 'r+b', buffering=0)
f.write(b'{"id":"1","name":"n","input":"python"}\n')
print(f.read(1000).decode(), end='')
END
python3 p.py > a &
for i in 1 2 3 4 5 6 7 8 9; do "$CAISSON_CALL" n "$i" > "a$i" & done
wait
cat a a1 a9
"$CAISSON_CALL" n '"ü"' | tr -d '"'
"$CAISSON_CALL" n '{' ; echo $?
"$CAISSON_CALL"; echo $?
`)
	var most, open atomic.Int64
	s.callable(&p, func(ctx context.Context, c control.Call) (control.Reply, error) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		return after(time.Second)(ctx, c)
	})
	s.expect(s.run(t.Context(), p), 0, "{\"id\":\"1\",\"result\":\"python\"}\n1\n9\nü\n1\n1\n",
		"the input of n is not valid JSON\nusage: $CAISSON_CALL NAME [JSON]\n")
	if most.Load() < 9 {
		t.Errorf("at most %d calls were open at once", most.Load())
	}
}

// TestCancelWhileSuspended: a run that waits ends at once, wherever it waits.
func TestCancelWhileSuspended(t *testing.T) {
	for _, c := range []struct{ interpreter, file, source string }{
		{"python3", "main.py", `
f = open('/dev/caisson-control', 'r+b', buffering=0)
f.write(b'{"id":"1","name":"n","input":1}\n')
f.read(1)`},
		{"python3", "main.py", `
import select
f = open('/dev/caisson-control', 'r+b', buffering=0)
f.write(b'{"id":"1","name":"n","input":1}\n')
select.select([f], [], [])`},
		{"bash", "main.sh", `"$CAISSON_CALL" n; echo on`},
	} {
		need(t, c.interpreter)
		s := newSandbox(t)
		p := s.program(c.interpreter, c.file, c.source)
		ctx, cancel := context.WithCancel(t.Context())
		s.callable(&p, func(ctx context.Context, c control.Call) (control.Reply, error) {
			cancel()
			<-ctx.Done()
			return control.Reply{}, ctx.Err()
		})
		began := time.Now()
		o := s.run(ctx, p)
		if o.Reason != ReasonCanceled || o.stdout != "" || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %+v after %v", c.source, o, time.Since(began))
		}
		cancel()
	}
}

// TestTwoHundredSuspended: programs that wait at the same time, with two slots, cost
// their memory and nothing that stays.
func TestTwoHundredSuspended(t *testing.T) {
	need(t, "node")
	const n = 200
	e := newEngine(t, Config{Parked: -1, MaxRunning: 2})
	source := `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+'), b = Buffer.alloc(100)
for (let i = 0; i < 3; i++) {
  fs.writeSync(fd, JSON.stringify({ id: String(i), name: 'n', input: i }) + '\n')
  const r = JSON.parse(b.subarray(0, fs.readSync(fd, b, 0, 100, null)))
  if (r.result !== i) throw new Error(JSON.stringify(r))
}
console.log('done')`
	s := newSandbox(t)
	once := func() (Program, func()) {
		p := s.program("node", "main.js", source)
		return p, s.callable(&p, after(0))
	}
	warm, end := once()
	s.expect(s.runOn(e, warm), 0, "done\n", "")
	end()
	before := held(t)
	var together sync.WaitGroup
	together.Add(n)
	var all sync.WaitGroup
	for range n {
		p := s.program("node", "main.js", source)
		var first sync.Once
		end := s.callable(&p, func(ctx context.Context, c control.Call) (control.Reply, error) {
			first.Do(together.Done)
			together.Wait() // until all of them wait
			var in int
			return control.Reply{Result: c.Input}, json.Unmarshal(c.Input, &in)
		})
		all.Go(func() {
			defer end()
			s.expect(s.runOn(e, p), 0, "done\n", "")
		})
	}
	all.Wait()
	var now resources
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if now = held(t); now.goroutines <= before.goroutines+2 && now.descriptors <= before.descriptors+2*n {
			break
		}
	}
	// Each program has directories open until the test ends.
	if now.goroutines > before.goroutines+2 || now.descriptors > before.descriptors+2*n {
		t.Errorf("before %+v, afterwards %+v", before, now)
	}
	t.Logf("before %+v, afterwards %+v", before, now)
}

type resources struct{ goroutines, descriptors int }

func held(t *testing.T) resources {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(fmt.Sprint("descriptors cannot be counted: ", err))
	}
	return resources{runtime.NumGoroutine(), len(list)}
}
