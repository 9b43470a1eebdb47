package meter

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

// BenchmarkRewrite: MB/s of input. To repeat: go test -bench Rewrite -run xxx.
func BenchmarkRewrite(b *testing.B) {
	for _, file := range []string{pythonFile, jsFile, sqliteFile} {
		b.Run(filepath.Base(file), func(b *testing.B) {
			module := pack(b, file)
			b.SetBytes(int64(len(module)))
			b.ReportAllocs()
			for b.Loop() {
				rewrite(b, module, Options{Fuel: &Fuel{}, Custom: DropCustom})
			}
		})
	}
}

// variants are the ways to run a module that are compared: as it is, metered, and
// with wazero's own cancellation.
var variants = []struct {
	name   string
	opts   Options
	cancel bool
}{
	{name: "plain", opts: Options{Custom: DropCustom}},
	{name: "fuel", opts: Options{Custom: DropCustom, Fuel: &Fuel{}}},
	{name: "context", opts: Options{Custom: DropCustom}, cancel: true},
}

// BenchmarkCode runs the worst cases: a loop of four instructions, and a function
// that does little but call itself.
func BenchmarkCode(b *testing.B) {
	a := &assembler{}
	a.exportFn("loop", "i", "i", "i", func(b *buffer) {
		b.op(opLoop, blockVoid)
		b.get(1)
		b.i32(3)
		b.op(opI32Add)
		b.set(1)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub)
		b.tee(0)
		b.op(opBrIf, 0, opEnd)
		b.get(1)
	})
	fib := a.imported + uint32(len(a.functions))
	a.exportFn("fib", "i", "i", "", func(b *buffer) {
		b.get(0)
		b.i32(2)
		b.op(opI32LtU, opIf, i32Type)
		b.get(0)
		b.op(opElse)
		for i := range int32(2) {
			b.get(0)
			b.i32(i + 1)
			b.op(opI32Sub)
			b.call(fib)
		}
		b.op(opI32Add, opEnd)
	})
	for _, f := range []struct {
		name string
		arg  uint64
	}{{"loop", 1_000_000}, {"fib", 25}} {
		for _, v := range variants {
			b.Run(f.name+"/"+v.name, func(b *testing.B) {
				r := newCachedRuntime(b, wazero.NewRuntimeConfig().WithCloseOnContextDone(v.cancel))
				refillFrom(b, r, 1<<20)
				m := instantiate(b, r, rewrite(b, a.bytes(), v.opts).Module)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				fn := m.ExportedFunction(f.name)
				for b.Loop() {
					if _, err := fn.Call(ctx, f.arg); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// pythonWork runs each workload a few times and prints the best, in nanoseconds by
// the clock that the host gives it.
const pythonWork = `
import json, random, re, sys, time
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def pidigits(n):
    k, a, b, a1, b1, out = 2, 4, 1, 12, 4, []
    while len(out) < n:
        p, q, k = k * k, 2 * k + 1, k + 1
        a, b, a1, b1 = a1, b1, p * a + q * a1, p * b + q * b1
        d, d1 = a // b, a1 // b1
        while d == d1 and len(out) < n:
            out.append(d)
            a, a1 = 10 * (a % b), 10 * (a1 % b1)
            d, d1 = a // b, a1 // b1
    return out
doc = {"a": [{"x": i, "y": str(i), "z": [1.5 * i, None, True]} for i in range(200)]}
text = "the quick brown fox 123 jumps over 4567 lazy dogs " * 300
def dumps(): [json.loads(json.dumps(doc)) for _ in range(2)]
def regex(): re.findall(r"(\w+)\s(\d+)", text), re.sub(r"[aeiou]+", "*", text)
def sort():
    r = random.Random(1); l = [r.random() for _ in range(10000)]; l.sort()
def floats():
    s = 0.0
    for i in range(20000): s += i * 0.5 / (i + 1)
def dicts():
    d = {}
    for i in range(20000): d[i % 1000] = d.get(i % 1000, 0) + i
def strings(): "".join(str(i) for i in range(10000)).upper().split("7")
for name, f in [("fib", lambda: fib(18)), ("pidigits", lambda: pidigits(250)), ("json", dumps), ("regex", regex),
                ("sort", sort), ("floats", floats), ("dicts", dicts), ("strings", strings)]:
    f()
    best = 1 << 62
    for _ in range(2):
        t = time.perf_counter_ns(); f(); best = min(best, time.perf_counter_ns() - t)
    print(name, best)
`

// BenchmarkPython runs work on CPython by turns in the three ways, and reports how
// much longer metered and cancellable code takes than plain code: the geometric mean
// over the workloads, of the best of all turns. Use -benchtime 10x or more; the
// figures of a busy machine are off by several percent. To repeat:
//
//	CAISSON_TEST_CACHE=/some/folder go test -bench Python -benchtime 20x -run xxx
func BenchmarkPython(b *testing.B) {
	module := pack(b, pythonFile)
	var commands []*command
	for _, v := range variants {
		config := wazero.NewRuntimeConfig().WithCloseOnContextDone(v.cancel)
		commands = append(commands, newCommand(b, rewrite(b, module, v.opts).Module, config))
	}
	start := time.Now()
	config := wazero.NewModuleConfig().WithArgs("python", "-c", pythonWork).
		WithNanotime(func() int64 { return int64(processTime(start)) }, 1)
	best := make([]map[string]float64, len(commands))
	var names []string
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		for i, c := range commands {
			runtime.GC()
			out, _, _ := c.run(b, ctx, config, 1<<20)
			first := best[i] == nil
			if first {
				best[i] = map[string]float64{}
			}
			for line := range strings.Lines(out) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				ns, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(out)
				}
				if old, ok := best[i][name]; !ok || ns < old {
					best[i][name] = ns
				}
				if i == 0 && first {
					names = append(names, name)
				}
			}
		}
	}
	for i, v := range variants[1:] {
		sum := 0.0
		var table strings.Builder
		for _, n := range names {
			x := best[i+1][n] / best[0][n]
			sum += math.Log(x)
			fmt.Fprintf(&table, " %s %.2f", n, x)
		}
		b.Logf("%s, as a multiple of plain:%s", v.name, table.String())
		b.ReportMetric(math.Exp(sum/float64(len(names))), v.name+"/plain")
	}
	b.ReportMetric(0, "ns/op")
}
