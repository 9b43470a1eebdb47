package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
)

// regoBundle is what opa made of testdata/opa/policy.rego.
func regoBundle(tb testing.TB) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/opa/policy.tar.gz")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func regoSpec(tb testing.TB, config string) Spec {
	return Spec{Name: "rego", Module: regoBundle(tb), ABI: ABIOPA, Config: []byte(config)}
}

func TestRegoPolicy(t *testing.T) {
	m := mustLoad(t, regoSpec(t, `{"denied":["php","ruby"]}`), fuelStop{})
	ask := func(language string) policy.Verdict {
		t.Helper()
		r := request()
		r.Language = language
		out, err := m.Call(t.Context(), OpAdmit, r.AppendJSON(nil), []byte("kept"))
		if err != nil {
			t.Fatal(err)
		}
		out, kept := bytes.CutPrefix(out, []byte("kept"))
		v, err := policy.DecodeVerdict(out)
		if err != nil || !kept {
			t.Fatalf("%s: %v", out, err)
		}
		return v
	}
	allow := policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}}
	for range 3 {
		for language, want := range map[string]policy.Verdict{
			"py":    allow,
			"é\"\\": allow,
			"bash":  {Decision: policy.Deny, Code: "language_not_allowed", Reason: "bash is not allowed here"},
			"php":   {Decision: policy.Deny, Code: "language_not_allowed", Reason: "php is not allowed here"},
		} {
			if got := ask(language); got != want {
				t.Errorf("%s: %+v", language, got)
			}
		}
	}
	remarks := func(bytes int64) policy.Remarks {
		t.Helper()
		o := policy.Outcome{Request: request(), Stop: "exit", StdoutBytes: bytes}
		out, err := m.Call(t.Context(), OpResult, o.AppendJSON(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := policy.DecodeRemarks(out)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := remarks(1000); len(got.Warnings) != 0 {
		t.Errorf("%+v", got)
	}
	if got := remarks(1001); !slices.Equal(got.Warnings, []policy.Remark{{Code: "noisy", Reason: "the program wrote 1001 bytes"}}) {
		t.Errorf("%+v", got)
	}
	if i := m.Info(); i.ABI != "opa 1.3" || i.Revision != "sample-1" || i.Stop != StopFuel {
		t.Errorf("%+v", i)
	}
	var about struct{ Revision string }
	if out, err := m.Call(t.Context(), OpDescribe, nil, nil); err != nil || json.Unmarshal(out, &about) != nil || about.Revision != "sample-1" {
		t.Errorf("%s %v", out, err)
	}
	if out, err := m.Call(t.Context(), OpSelftest, nil, nil); err != nil || len(out) > 0 {
		t.Errorf("%q %v", out, err)
	}
	var refusal *GuestError
	if _, err := m.Call(t.Context(), OpList, nil, nil); !errors.As(err, &refusal) || refusal.Code != "unsupported_op" {
		t.Errorf("%v", err)
	}
	if s := m.Stats(); s.Discards != 0 {
		t.Errorf("%+v", s)
	}
}

// What is not JSON to the policy is not an input without members, which the sample
// would let pass.
func TestRegoOfBadInput(t *testing.T) {
	spec := regoSpec(t, "")
	spec.Limits.Instances = 1
	m := mustLoad(t, spec, fuelStop{})
	for _, in := range []string{"", "{", `{"language":`, "\x00", `nonsense`, strings.Repeat("[", 1000)} {
		out, err := m.Call(t.Context(), OpAdmit, []byte(in), nil)
		if refusal, ok := errors.AsType[*GuestError](err); !ok || refusal.Code != "bad_input" {
			t.Errorf("%.20q: %s %v", in, out, err)
		}
		r := request()
		if _, err := m.Call(t.Context(), OpAdmit, r.AppendJSON(nil), nil); err != nil {
			t.Fatalf("after %q: %v", in, err)
		}
	}
}

// Whatever a caller's text holds, the policy sees the members beside it.
func TestRegoOfAnyText(t *testing.T) {
	m := mustLoad(t, regoSpec(t, ""), fuelStop{})
	r := request()
	r.Language = "bash"
	for _, text := range []string{
		"\x00", "a\x00b", "\xff\xfe", "\u2028\u2029", "\x7f", "\ud7ff\ue000\ufffd", "\U0010ffff\U0001F600", `\ud800\u0000`, "\"\\/\b\f\n\r\t",
		strings.Repeat("é", 100_000), strings.Repeat("{[", 10_000),
	} {
		r.Code, r.User = text, text[:min(len(text), 10)]
		out, err := m.Call(t.Context(), OpAdmit, r.AppendJSON(nil), nil)
		if v, err2 := policy.DecodeVerdict(out); err != nil || err2 != nil || v.Decision != policy.Deny {
			t.Errorf("%.20q: %s %v %v", text, out, err, err2)
		}
	}
}

// The memory of a policy does not depend on how often it is asked, and a large input
// leaves nothing behind that is in the way.
func TestRegoMemoryIsFlat(t *testing.T) {
	spec := regoSpec(t, "")
	spec.Limits = Limits{Instances: 1, MemoryBytes: 16 << 20, Timeout: time.Minute}
	m := mustLoad(t, spec, fuelStop{})
	r := request()
	small := r.AppendJSON(nil)
	r.Code = strings.Repeat("x = 1\n", 100_000)
	large := r.AppendJSON(nil)
	var out []byte
	ask := func(in []byte) {
		t.Helper()
		var err error
		if out, err = m.Call(context.Background(), OpAdmit, in, out[:0]); err != nil {
			t.Fatal(err)
		}
	}
	ask(large)
	settled := m.Stats().MemoryHighBytes
	before := m.Stats().Fuel
	ask(small)
	once := m.Stats().Fuel - before
	const n = 50_000
	for i := range n {
		if ask(small); i%1000 == 0 {
			ask(large)
		}
	}
	before = m.Stats().Fuel
	ask(small)
	s := m.Stats()
	if s.MemoryHighBytes != settled || s.Recycled+s.Discards > 0 || s.Fuel-before != once {
		t.Errorf("memory %d, then %d; fuel %d, then %d; %+v", settled, s.MemoryHighBytes, once, s.Fuel-before, s)
	}
	t.Logf("%d calls, memory %d KiB, %d units a call", n, s.MemoryHighBytes>>10, once)
}

func TestRegoRefusals(t *testing.T) {
	whole, err := unpackBundle(regoBundle(t))
	if err != nil {
		t.Fatal(err)
	}
	tarball := func(files ...string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for i := 0; i < len(files); i += 2 {
			if err := errors.Join(w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600}), writeAll(w, files[i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	module := string(whole.module)
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"no module":            {Spec{Module: tarball("/data.json", "{}")}, "no /policy.wasm"},
		"two modules":          {Spec{Module: tarball("policy.wasm", module, "/policy.wasm", module)}, "there twice"},
		"two documents":        {Spec{Module: tarball("/data.json", "{}", "./data.json", "{}", "/policy.wasm", module)}, "there twice"},
		"data in the way":      {Spec{Module: tarball("/policy.wasm", module, "/data.json", `{"config":{}}`)}, `"config" is where the operator's configuration goes`},
		"data is a list":       {Spec{Module: tarball("/policy.wasm", module, "/data.json", `[]`)}, "/data.json"},
		"bad manifest":         {Spec{Module: tarball("/policy.wasm", module, "/.manifest", `{`)}, "/.manifest"},
		"truncated":            {Spec{Module: regoBundle(t)[:1000]}, "bundle: "},
		"not gzip":             {Spec{Module: []byte("\x1f\x8bxxxxxxxxxxxxxxxx")}, "bundle: "},
		"not a module":         {Spec{Module: tarball("/policy.wasm", "x")}, "not a WebAssembly core module"},
		"imports granted":      {Spec{Module: whole.module, Imports: []string{"log"}}, "imports neither host functions nor WASI"},
		"wasi granted":         {Spec{Module: whole.module, WASI: true}, "imports neither host functions nor WASI"},
		"a module of ABI v1":   {Spec{Module: goGuest(t, "policy")}, "which no module made by opa does"},
		"unnamed convention":   {Spec{Module: whole.module, ABI: "opa2"}, `want "v1" or "opa"`},
		"memory it may not":    {Spec{Module: whole.module, Limits: Limits{MemoryBytes: pageBytes}}, "its limit is 65536"},
		"memory it then needs": {Spec{Module: whole.module, Limits: Limits{MemoryBytes: 2 * pageBytes}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Name = "x"
			if c.spec.ABI == "" {
				c.spec.ABI = ABIOPA
			}
			m, err := Load(t.Context(), c.spec)
			if err == nil {
				_ = m.Close(context.Background())
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	// As ABI v1 it is refused for what it imports.
	if _, err := Load(t.Context(), Spec{Name: "x", Module: whole.module}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	// A bare module is a bundle without data, of which the sample makes an undefined
	// result: its threshold is missing, so it has no remarks.
	m := mustLoad(t, Spec{Name: "bare", Module: whole.module, ABI: ABIOPA}, fuelStop{})
	o := policy.Outcome{Request: request(), Stop: "exit", StdoutBytes: 1 << 40}
	if out, err := m.Call(t.Context(), OpResult, o.AppendJSON(nil), nil); err != nil || string(out) != `{"warnings":[]}` {
		t.Errorf("%s %v", out, err)
	}
}

func writeAll(w *tar.Writer, s string) error {
	_, err := w.Write([]byte(s))
	return err
}

func TestRegoSprintf(t *testing.T) {
	list := func(v ...any) []any { return v }
	for _, c := range []struct {
		format string
		args   []any
		want   any
	}{
		{"%s is %d years", list("Ann", json.Number("7")), "Ann is 7 years"},
		{"%v|%v|%v", list(json.Number("1.5"), true, nil), "1.5|true|null"},
		{"%5d|%-5s|%05.1f%%", list(json.Number("42"), "a", json.Number("2.25")), "   42|a    |002.2%"},
		{"%v", list([]any{json.Number("1"), "x"}), `[1,"x"]`},
		{"%d", list(json.Number("123456789012345678901234567890")), "123456789012345678901234567890"},
		{"%s", nil, "%!s(MISSING)"},
		{"%1000d", list(json.Number("1")), strings.Repeat(" ", 999) + "1"},
	} {
		if got, err := regoSprintf([]any{c.format, c.args}); err != nil || got != c.want {
			t.Errorf("%s: %q %v", c.format, got, err)
		}
	}
	for _, format := range []string{"%1001d", "%99999999999999999999d", "%.5000f", "%*d", "%[3]d", "%[3]*.[2]*[1]f", "%-+# 02000d", strings.Repeat("%d", 65)} {
		if got, err := regoSprintf([]any{format, list(json.Number("1"))}); err == nil {
			t.Errorf("%.20s: %d bytes", format, len(got.(string)))
		}
	}
	// Without the right types it is undefined, as Rego has it.
	if got, err := regoSprintf([]any{json.Number("1"), nil}); got != nil || err != nil {
		t.Errorf("%v %v", got, err)
	}
}

// Instances share one document, and nothing else of the bundle is kept.
func TestRegoKeepsOneDocument(t *testing.T) {
	spec := regoSpec(t, `{"denied":["php"]}`)
	spec.Limits.Instances = 3
	m := mustLoad(t, spec, fuelStop{})
	c := m.convention.(*conventionOPA)
	if c.bundle.module != nil || c.bundle.data != nil {
		t.Errorf("%d bytes of the module are kept, and %d members of its data", len(c.bundle.module), len(c.bundle.data))
	}
	first, err := c.document(spec.Config)
	again, err2 := c.document(spec.Config)
	if err != nil || err2 != nil || len(first) == 0 || &first[0] != &again[0] {
		t.Errorf("%s, then %s: %v %v", first, again, err, err2)
	}
	if want := `{"config":{"denied":["php"]},"quiet":{"bytes":1000}}`; string(first) != want {
		t.Errorf("%s, want %s", first, want)
	}
}

// Digits take time that is proportional to their number. Many are given forty times as
// much for each of them as few, since the machine may be busy.
func TestRegoSprintfOfManyDigits(t *testing.T) {
	cost := func(digits int) time.Duration {
		args := []any{"%v", []any{json.Number(strings.Repeat("7", digits))}}
		least := time.Hour
		for range 3 {
			began := time.Now()
			if _, err := regoSprintf(args); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	const few, times = 4000, 250
	if small, large := cost(few), cost(few*times); large > 40*times*small {
		t.Errorf("%d digits take %v, %d times as many %v", few, small, times, large)
	}
}

func TestRegoCallsHardlyAllocate(t *testing.T) {
	m := mustLoad(t, regoSpec(t, ""), fuelStop{})
	r := request()
	in := r.AppendJSON(nil)
	out := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(2000, func() {
		var err error
		if out, err = m.Call(context.Background(), OpAdmit, in, out[:0]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per call", n)
	}
}

func FuzzBundle(f *testing.F) {
	f.Add(regoBundle(f))
	whole, err := unpackBundle(regoBundle(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole.module)
	for name := range maps.Keys(builtins) {
		f.Add([]byte(name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := unpackBundle(data)
		if err != nil {
			return
		}
		adopted, err := adoptMemory(b.module)
		if err != nil {
			return
		}
		// Once adopted there is nothing left to adopt.
		again, err := adoptMemory(adopted)
		if err == nil && !bytes.Equal(again, adopted) {
			t.Fatalf("%d bytes became %d, then %d", len(b.module), len(adopted), len(again))
		}
		_, _, _ = harden(adopted)
	})
}
