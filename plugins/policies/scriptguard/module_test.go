package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/guest/guesttest"
	"github.com/caisson-run/caisson/sdk/policy"
)

// load loads the module as a host does.
func load(tb testing.TB) *wasm.Module {
	tb.Helper()
	module, err := guesttest.Build(tb.Context(), ".")
	if err != nil {
		tb.Fatal(err)
	}
	m := readManifest(tb)
	loaded, err := wasm.Load(tb.Context(), wasm.Spec{
		Name: m.Name, Module: module, WASI: m.WASI, Imports: m.Imports, Deterministic: m.Deterministic, Config: []byte("{}"),
		Limits: wasm.Limits{MemoryBytes: m.Limits.Memory, Timeout: time.Minute, Fuel: int64(m.Limits.Timeout) * 3, // the machine may be busy
			InputBytes: m.Limits.InputBytes, OutputBytes: m.Limits.OutputBytes, Instances: 1},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := loaded.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return loaded
}

// The module says what the package says, within its limits: also about more
// text than it looks at, in which there is much to look at.
func TestModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a module of megabytes")
	}
	m, c := load(t), plain(t)
	list := append(corpus(t, "hostile.txt", true), corpus(t, "ordinary-py.txt", false)...)
	for _, c := range []struct{ language, code string }{
		{"bash", "curl x > y; rm -rf ./a; echo 'nc' | wc\n"},
		{"bash", "eval curl x > y; rm -rf ./a; echo nc -c | wc\n"},
		{"bash", "eval x\n"},
		{"bash", "eval 'rm '; "},
		{"bash", "' rm -rf / '\n"},
		{"py", "popen('nc')\n"},
		{"py", "'socket'\nos.dup2("},
	} {
		list = append(list, snippet{language: c.language, title: c.code, code: strings.Repeat(c.code, 1_000_000/len(c.code))})
	}
	for _, s := range list {
		r := policy.Request{Org: "o", Via: "bearer", Language: s.language, Config: "c", Network: "none", CodeBytes: int64(len(s.code)), Code: s.code}
		out, err := m.Call(t.Context(), wasm.OpAdmit, r.AppendJSON(nil), nil)
		if err != nil {
			t.Fatalf("%s: %v", s.title, err)
		}
		if v, err := policy.DecodeVerdict(out); err != nil || v != c.admit(r) {
			t.Errorf("%s: %s %v", s.title, out, err)
		}
		o := policy.Outcome{Request: r, Stop: "exit"}
		out, err = m.Call(t.Context(), wasm.OpResult, o.AppendJSON(nil), nil)
		want := c.result(o)
		if err != nil || string(out) != string(want.AppendJSON(nil)) {
			t.Errorf("%s: %s %v", s.title, out, err)
		}
	}
	s := m.Stats()
	// An operator may have it look at twice as much.
	if s.Discards != 0 || 2*int64(s.FuelHigh) > m.Info().Limits.Fuel {
		t.Errorf("%+v", s)
	}
	t.Logf("at most %d of %d units of fuel", s.FuelHigh, m.Info().Limits.Fuel)
}

// BenchmarkAdmit is one program of the corpus after the other, through the module.
func BenchmarkAdmit(b *testing.B) {
	m := load(b)
	for _, kind := range []string{"ordinary-py.txt", "ordinary-bash.txt"} {
		b.Run(kind, func(b *testing.B) {
			var requests [][]byte
			for _, s := range corpus(b, kind, false) {
				r := policy.Request{Org: "o", Via: "bearer", Language: s.language, Config: "c", Network: "none", CodeBytes: int64(len(s.code)), Code: s.code}
				requests = append(requests, r.AppendJSON(nil))
			}
			var out []byte
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				var err error
				if out, err = m.Call(context.Background(), wasm.OpAdmit, requests[n%len(requests)], out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
