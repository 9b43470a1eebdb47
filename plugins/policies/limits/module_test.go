package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/guest/guesttest"
	"github.com/caisson-run/caisson/sdk/policy"
)

// module is this package, built as a guest, and cacheDir keeps its compiled code
// from one test to the next.
var (
	module   []byte
	cacheDir string
)

func TestMain(m *testing.M) {
	var err error
	if module, err = guesttest.Build(context.Background(), "."); err == nil {
		cacheDir, err = os.MkdirTemp("", "limits-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(cacheDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// load loads the module as a host does: with what its manifest says.
func load(tb testing.TB, config string) (*wasm.Module, error) {
	tb.Helper()
	m := readManifest(tb)
	complete, err := m.CompleteConfig([]byte(config))
	if err != nil {
		complete = []byte(config) // the module is asked, too
	}
	mod, err := wasm.Load(context.Background(), spec(m, complete))
	if err == nil {
		tb.Cleanup(func() {
			if err := mod.Close(context.Background()); err != nil {
				tb.Error(err)
			}
		})
	}
	return mod, err
}

func spec(m *manifest.Manifest, config []byte) wasm.Spec {
	return wasm.Spec{
		Name: m.Name, Module: module, ABI: string(m.ABI), Imports: m.Imports, WASI: m.WASI, Deterministic: m.Deterministic, Config: config,
		CacheDir: cacheDir,
		Limits: wasm.Limits{
			MemoryBytes: m.Limits.Memory, Instances: 2,
			Timeout:    time.Minute, // what is tested here is not how busy the machine is
			InputBytes: m.Limits.InputBytes, OutputBytes: m.Limits.OutputBytes,
		},
	}
}

func ask(tb testing.TB, m *wasm.Module, r policy.Request) policy.Verdict {
	tb.Helper()
	out, err := m.Call(context.Background(), wasm.OpAdmit, r.AppendJSON(nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := policy.DecodeVerdict(out)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestModule(t *testing.T) {
	m, err := load(t, `{"languages":["py","js"],"max_file_bytes":10,"limits":{"wall_ms":5000}}`)
	if err != nil {
		t.Fatal(err)
	}
	// More calls than instances: each was configured.
	for range 8 {
		if v := ask(t, m, request()); v != (policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}}) {
			t.Errorf("got %+v", v)
		}
	}
	r := request()
	r.Language = "bash"
	if v := ask(t, m, r); v.Decision != policy.Deny || v.Code != "language_not_allowed" || v.Reason != `language "bash" is not allowed here; allowed is py and js` {
		t.Errorf("got %+v", v)
	}
	r = request()
	r.Files = []policy.File{{Name: "big\n.csv", Size: 11}}
	if v := ask(t, m, r); v.Decision != policy.Deny || v.Reason != `input file "big\n.csv" has 11 bytes, and at most 10 are allowed here` {
		t.Errorf("got %+v", v)
	}
	if _, err := m.Call(context.Background(), wasm.OpSelftest, nil, nil); err != nil {
		t.Errorf("selftest: %v", err)
	}
	if s := m.Stats(); s.Discards != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestModuleWithoutConfig(t *testing.T) {
	m, err := load(t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	r.Language, r.Network = "anything", "open"
	if v := ask(t, m, r); v != (policy.Verdict{Decision: policy.Allow}) {
		t.Errorf("got %+v", v)
	}
}

func TestModuleRefusesConfig(t *testing.T) {
	_, err := load(t, `{"languages":[]}`)
	var refusal *wasm.GuestError
	if !errors.As(err, &refusal) || refusal.Code != "bad_config" || !strings.Contains(refusal.Message, "languages: want at least one element") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkAdmit is one decision, through the pool, with wazero's own cancellation.
func BenchmarkAdmit(b *testing.B) {
	m, err := load(b, `{"languages":["py","js"],"network":"none","max_code_bytes":1000000,"limits":{"wall_ms":5000}}`)
	if err != nil {
		b.Fatal(err)
	}
	r := request()
	r.Session, r.Toolchain = "AAAAAAAAAAAAAAAAAAAAA", "cpython"
	r.Limits = policy.Limits{WallMS: 30000, MemoryBytes: 512 << 20, StdoutBytes: 1 << 20, StderrBytes: 1 << 20, ChangedFiles: 100}
	var in, out []byte
	b.ReportAllocs()
	for b.Loop() {
		in = r.AppendJSON(in[:0])
		if out, err = m.Call(context.Background(), wasm.OpAdmit, in, out[:0]); err != nil {
			b.Fatal(err)
		}
		if _, err = policy.DecodeVerdict(out); err != nil {
			b.Fatal(err)
		}
	}
}
