package prelude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// answers runs a program whose tool f is answered with its own "n", and returns what it
// printed and what came in each read, as the values of "n". Calls with "after" are
// answered once such a call came.
func answers(t *testing.T, code string) (printed string, reads [][]string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatalf("python3 is not there: %v", err)
		}
		t.Skip("SKIP: python3 is not there")
	}
	dir, err := os.MkdirTemp("", "prelude") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	came := sync.NewCond(&mu)
	seen := map[string]bool{}
	context.AfterFunc(ctx, came.Broadcast)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				err := echo(c, func(read []string, after string) {
					mu.Lock()
					defer mu.Unlock()
					reads = append(reads, read)
					for _, n := range read {
						seen[n] = true
					}
					came.Broadcast()
					for after != "" && !seen[after] && ctx.Err() == nil {
						came.Wait()
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	})
	file := filepath.Join(dir, "main.py")
	if err := os.WriteFile(file, Python([]Tool{{Name: "f"}}, "import asyncio\n"+code), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, file)
	cmd.Env = append(os.Environ(), "CAISSON_CONTROL="+l.Addr().String())
	out, err := cmd.CombinedOutput()
	_ = l.Close()
	all.Wait()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return string(out), reads
}

// echo answers the calls of one connection to its end, and notes what comes at a time.
func echo(c net.Conn, note func(read []string, after string)) error {
	defer c.Close()
	var rest []byte
	buf := make([]byte, 1<<20)
	out := bufio.NewWriter(c)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil
		}
		rest = append(rest, buf[:n]...)
		var read []string
		var after string
		for {
			line, more, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			rest = more
			var f struct {
				ID    string
				Input map[string]any
			}
			if err := json.Unmarshal(line, &f); err != nil {
				return err
			}
			if a, ok := f.Input["after"]; ok {
				after = fmt.Sprint(a)
			}
			read = append(read, fmt.Sprint(f.Input["n"]))
			result := f.Input["n"]
			if raw, ok := f.Input["raw"]; ok {
				result = raw
			}
			fmt.Fprintf(out, `{"id":%q,"result":%v}`+"\n", f.ID, result)
		}
		note(read, after)
		if err := out.Flush(); err != nil {
			return nil // the program has ended beside its calls
		}
	}
}

// Calls that are made together are written together, in their order.
func TestCallsAreSentTogether(t *testing.T) {
	for _, c := range []struct{ name, code, printed, reads string }{
		{"gather", `
async def one(i):
    return await f(n=i)
print(*await asyncio.gather(*(one(i) for i in range(10))))
print(await f(n=10))`, "0 1 2 3 4 5 6 7 8 9\n10\n", "[[0 1 2 3 4 5 6 7 8 9] [10]]"},
		{"canceled before it was sent", `
tasks = [asyncio.create_task(f(n=i)) for i in range(3)]
await asyncio.sleep(0)
tasks[1].cancel()
print(await asyncio.gather(*tasks, return_exceptions=True))`, "[0, CancelledError(''), 2]\n", "[[0 2]]"},
		{"another loop inside", `
t = asyncio.create_task(f(n=1))
await asyncio.sleep(0)
async def inner():
    return await f(n=2, after=1)
print(asyncio.run(inner()), await t)`, "2 1\n", ""},
		{"threads", `
import threading
def work(i, out):
    async def both():
        return await asyncio.gather(f(n=i), f(n=i))
    out.append(asyncio.run(both()))
out = []
for i in range(2):
    t = threading.Thread(target=work, args=(i, out))
    t.start()
    t.join()
print(out)`, "[[0, 0], [1, 1]]\n", "[[0 0] [1 1]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			printed, reads := answers(t, c.code)
			if c.name == "canceled before it was sent" {
				printed = strings.Replace(printed, "CancelledError()", "CancelledError('')", 1) // by version
			}
			if printed != c.printed || c.reads != "" && fmt.Sprint(reads) != c.reads {
				t.Errorf("%q in %v, want %q in %v", printed, reads, c.printed, c.reads)
			}
		})
	}
}

// Large calls are not collected: each is sent when it is made.
func TestLargeCallsAreNotCollected(t *testing.T) {
	printed, _ := answers(t, `
most = 0
connection = None
async def one(i):
    global most
    answer = asyncio.ensure_future(f(n=i, text="x" * 50_000))
    await asyncio.sleep(0)
    import gc
    for c in [x for x in gc.get_objects() if type(x).__name__ == "Connection"]:
        most = max(most, c.collected, sum(map(len, c.outgoing.values())))
    return await answer
r = await asyncio.gather(*(one(i) for i in range(20)))
print(r == list(range(20)), 0 < most < 1 << 16)`)
	if printed != "True True\n" {
		t.Errorf("%q", printed)
	}
}

// A result that Python cannot read is an error of its call; others have their results.
func TestResultsThatCannotBeRead(t *testing.T) {
	printed, _ := answers(t, `
for raw in ("9" * 4301, "[" * 100000 + "]" * 100000):
    r = await asyncio.gather(f(n=1), f(n=2, raw=raw), f(n=3), return_exceptions=True)
    print(r[0], type(r[1]).__name__, str(r[1])[:35], r[2])
print(await f(n=4))`)
	const line = "1 ToolExecutionError the tool's result cannot be read: E 3\n"
	want := line + strings.Replace(line, ": E", ": m", 1) + "4\n"
	if printed != want {
		t.Errorf("%q, want %q", printed, want)
	}
}

// Where there is no memory for what comes, its calls end with that, and not with the time.
func TestNoMemoryForResults(t *testing.T) {
	printed, _ := answers(t, `
import gc, json
loads = json.loads
def none(*a): raise MemoryError("no more")
json.loads = none
r = await asyncio.gather(f(n=1), f(n=2), return_exceptions=True)
json.loads = loads
print([type(x).__name__ for x in r], await f(n=3))
connection = [x for x in gc.get_objects() if type(x).__name__ == "Connection"][0]
class Buffer(bytearray):
    def __iadd__(self, data): raise MemoryError("no more")
connection.buffer = Buffer()
try:
    await f(n=4)
except MemoryError as error:
    print(error)
print(await f(n=5))`)
	if want := "['MemoryError', 'MemoryError'] 3\nno more\n5\n"; printed != want {
		t.Errorf("%q, want %q", printed, want)
	}
}
