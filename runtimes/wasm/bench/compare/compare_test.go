package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/compile"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/guest/abi"
	"github.com/caisson-run/caisson/sdk/guest/guesttest"
	"github.com/caisson-run/caisson/sdk/policy"
)

// decider is one way to have the policy decide: a request in JSON, a verdict in
// JSON. What it returns is valid until the next call.
type decider struct {
	name   string
	decide func(request []byte) ([]byte, error)
}

const testdata = "../../testdata/"

// deciders are all of them, ready for calls.
func deciders(tb testing.TB) []decider {
	tb.Helper()
	assemblyscript, err := os.ReadFile(testdata + "assemblyscript/policy.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	rego, err := os.ReadFile(testdata + "opa/policy.tar.gz")
	if err != nil {
		tb.Fatal(err)
	}
	return []decider{
		{"caisson/go", caisson(tb, wasm.Spec{Module: build(tb, testdata+"guests/policy"), WASI: true, Deterministic: true}, wasm.OpAdmit)},
		{"caisson/assemblyscript", caisson(tb, wasm.Spec{Module: assemblyscript, Imports: []string{"log"}}, wasm.OpAdmit)},
		{"caisson/rego", caisson(tb, wasm.Spec{Module: rego, ABI: wasm.ABIOPA}, wasm.OpAdmit)},
		{"extism/go", onExtism(tb, "admit", 0)},
		{"extism/go, with a time limit", onExtism(tb, "admit", time.Second)},
		{"opa/rego", opa(tb, false)},
		{"opa/rego, without decoding the request", opa(tb, true)},
	}
}

func build(tb testing.TB, dir string) []byte {
	tb.Helper()
	module, err := guesttest.Build(tb.Context(), dir)
	if err != nil {
		tb.Fatal(err)
	}
	return module
}

// echoes answer with what they are given: what is left is the way there and back.
func echoes(tb testing.TB) []decider {
	tb.Helper()
	assemblyscript, err := os.ReadFile(testdata + "assemblyscript/policy.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	return []decider{
		{"caisson/assemblyscript", caisson(tb, wasm.Spec{Module: assemblyscript, Imports: []string{"log"}}, opEcho)},
		{"caisson/go", caisson(tb, wasm.Spec{Module: build(tb, testdata+"guests/probe"), WASI: true, Imports: []string{"log", "now_ms", "rand"}}, opEcho)},
		{"extism/go", onExtism(tb, "echo", 0)},
	}
}

// opEcho is the first operation that is a module's own.
const opEcho = uint32(abi.OpPrivate)

// caisson is metered and limited in time, as it always is.
func caisson(tb testing.TB, spec wasm.Spec, op uint32) func([]byte) ([]byte, error) {
	tb.Helper()
	spec.Name = "policy"
	m, err := wasm.Load(tb.Context(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	var out []byte
	return func(request []byte) ([]byte, error) {
		var err error
		out, err = m.Call(context.Background(), op, request, out[:0])
		return out, err
	}
}

func onExtism(tb testing.TB, name string, limit time.Duration) func([]byte) ([]byte, error) {
	tb.Helper()
	ctx := context.Background()
	manifest := extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: build(tb, "testdata/extism")}},
		Timeout: uint64(limit.Milliseconds()),
	}
	p, err := extism.NewPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return func(request []byte) ([]byte, error) {
		_, out, err := p.CallWithContext(ctx, name, request)
		return out, err
	}
}

// opa evaluates a prepared query in the process. parsed leaves out what it takes to
// read the request, which is then always the first.
func opa(tb testing.TB, parsed bool) func([]byte) ([]byte, error) {
	tb.Helper()
	ctx := context.Background()
	source, err := os.ReadFile(testdata + "opa/policy.rego")
	if err != nil {
		tb.Fatal(err)
	}
	data := inmem.NewFromObject(map[string]any{"config": map[string]any{}, "quiet": map[string]any{"bytes": 1000}})
	query, err := rego.New(rego.Query("data.caisson.verdict"), rego.Store(data), rego.Module("policy.rego", string(source))).PrepareForEval(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	var kept []byte
	var value ast.Value
	return func(request []byte) ([]byte, error) {
		if !parsed || !bytes.Equal(kept, request) {
			kept = request
			if value, err = ast.ValueFromReader(bytes.NewReader(request)); err != nil {
				return nil, err
			}
		}
		set, err := query.Eval(ctx, rego.EvalParsedInput(value))
		if err != nil {
			return nil, err
		}
		return json.Marshal(set[0].Expressions[0].Value)
	}
}

// request is one of about 300 bytes, as an ordinary run makes.
func request(language string) []byte {
	r := policy.Request{
		Org: "acme", User: "ann", Via: "bearer", Session: "AAAAAAAAAAAAAAAAAAAAA",
		Language: language, Toolchain: "cpython", Config: "wasm", Network: "none", CodeBytes: 1234,
		Limits: policy.Limits{WallMS: 30000, MemoryBytes: 512 << 20, StdoutBytes: 1 << 20, StderrBytes: 1 << 20, ChangedFiles: 100},
	}
	return r.AppendJSON(nil)
}

// TestSameVerdicts: what is compared does the same.
func TestSameVerdicts(t *testing.T) {
	for _, d := range deciders(t) {
		for language, want := range map[string]policy.Verdict{
			"py":   {Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}},
			"bash": {Decision: policy.Deny, Code: "language_not_allowed", Reason: "bash is not allowed here"},
		} {
			out, err := d.decide(request(language))
			if err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			if got, err := policy.DecodeVerdict(out); err != nil || got != want {
				t.Errorf("%s of %s: %s, %v", d.name, language, out, err)
			}
		}
	}
}

func TestEchoes(t *testing.T) {
	for _, d := range echoes(t) {
		for _, in := range []string{"x", "hello, é"} {
			if out, err := d.decide([]byte(in)); err != nil || string(out) != in {
				t.Errorf("%s: %q, %v", d.name, out, err)
			}
		}
	}
}

// TestRegoIsWhatOPAMakes builds the committed bundle anew.
func TestRegoIsWhatOPAMakes(t *testing.T) {
	made := buildRego(t, testdata+"opa", "sample-1", []string{"policy.rego", "data.json"}, "caisson/verdict", "caisson/remarks")
	committed, err := os.ReadFile(testdata + "opa/policy.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, committed) {
		t.Errorf("testdata/opa/policy.tar.gz is not what opa makes of its sources: run testdata/opa/build.sh")
	}
}

func buildRego(t *testing.T, dir, revision string, paths []string, entries ...string) []byte {
	t.Helper()
	var made bytes.Buffer
	c := compile.New().WithTarget(compile.TargetWasm).WithEntrypoints(entries...).
		WithRevision(revision).WithPaths(paths...).WithFS(os.DirFS(dir)).WithOutput(&made)
	if err := c.Build(context.Background()); err != nil {
		t.Fatal(err)
	}
	return made.Bytes()
}

// TestNewRego: what caisson plugin new writes is compiled, passes its own tests, and
// decides.
func TestNewRego(t *testing.T) {
	const dir = "../../../../host/cmd/caisson/internal/scaffold/templates/policy-rego"
	modules, store, err := tester.Load([]string{dir + "/policy.rego", dir + "/policy_test.rego"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(ctx, txn)
	results, err := tester.NewRunner().SetStore(store).SetModules(modules).RunTests(ctx, txn)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for r := range results {
		if !r.Pass() {
			t.Errorf("%s: %v", r.Name, r.Error)
		}
		passed++
	}
	if passed != 3 {
		t.Errorf("%d tests", passed)
	}
	decide := caisson(t, wasm.Spec{Module: buildRego(t, dir, "", []string{"policy.rego"}, "caisson/verdict"), ABI: wasm.ABIOPA, Config: []byte(`{"denied":["php"]}`)}, wasm.OpAdmit)
	for language, want := range map[string]policy.Decision{"py": policy.Allow, "bash": policy.Deny, "php": policy.Deny} {
		out, err := decide(request(language))
		if v, err2 := policy.DecodeVerdict(out); err != nil || err2 != nil || v.Decision != want {
			t.Errorf("%s: %s %v %v", language, out, err, err2)
		}
	}
}

// BenchmarkPolicy is one decision, with the median beside the mean.
func BenchmarkPolicy(b *testing.B) { compare(b, deciders(b)) }

// BenchmarkEcho is the way to a guest and back.
func BenchmarkEcho(b *testing.B) { compare(b, echoes(b)) }

func compare(b *testing.B, deciders []decider) {
	in := request("py")
	for _, d := range deciders {
		b.Run(d.name, func(b *testing.B) {
			const batch = 4
			times := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			began := time.Now()
			for n := 1; b.Loop(); n++ {
				if _, err := d.decide(in); err != nil {
					b.Fatal(err)
				}
				if n%batch == 0 && len(times) < cap(times) {
					now := time.Now()
					times = append(times, now.Sub(began))
					began = now
				}
			}
			if len(times) > 0 {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2])/batch, "p50-ns/op")
			}
		})
	}
}
