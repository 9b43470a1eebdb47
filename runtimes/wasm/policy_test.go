package wasm

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
)

// policies are the same policy in two languages, in one of them with and without an
// SDK.
func policies(tb testing.TB) map[string]Spec {
	return map[string]Spec{
		"go":                 {Name: "policy", Module: goGuest(tb, "policy"), WASI: true, Deterministic: true},
		"assemblyscript":     {Name: "as", Module: asGuest(tb), Imports: []string{"log"}},
		"assemblyscript sdk": asSDK(tb),
	}
}

// A request of about 300 bytes, as an ordinary run makes.
func request() policy.Request {
	return policy.Request{
		Org: "acme", User: "ann", Via: "bearer", Session: "AAAAAAAAAAAAAAAAAAAAA",
		Language: "py", Toolchain: "cpython", Config: "wasm", Network: "none", CodeBytes: 1234,
		Limits: policy.Limits{WallMS: 30000, MemoryBytes: 512 << 20, StdoutBytes: 1 << 20, StderrBytes: 1 << 20, ChangedFiles: 100},
	}
}

func TestPolicies(t *testing.T) {
	for name, spec := range policies(t) {
		t.Run(name, func(t *testing.T) {
			m := mustLoad(t, spec, fuelStop{})
			ask := func(r policy.Request) policy.Verdict {
				out, err := m.Call(context.Background(), OpAdmit, r.AppendJSON(nil), nil)
				if err != nil {
					t.Fatal(err)
				}
				v, err := policy.DecodeVerdict(out)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			r := request()
			if v, want := ask(r), (policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}}); v != want {
				t.Errorf("got %+v", v)
			}
			r.Code = `x = {"language":"bash"}`
			if v := ask(r); v.Decision != policy.Allow {
				t.Errorf("the text of a program decides: %+v", v)
			}
			r.Language = "bash"
			if v := ask(r); v.Decision != policy.Deny || v.Code != "language_not_allowed" || v.Reason != "bash is not allowed here" {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// TestCallsDoNotAllocate is the whole path of a call.
func TestCallsDoNotAllocate(t *testing.T) {
	specs := map[string]Spec{"assembled": guests(t)["assembled"]}
	maps.Copy(specs, policies(t))
	r := request()
	in := r.AppendJSON(nil)
	for name, spec := range specs {
		op := opEcho
		if name == "go" || name == "assemblyscript sdk" {
			op = OpAdmit
		}
		t.Run(name, func(t *testing.T) {
			m := mustLoad(t, spec, fuelStop{})
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			out := make([]byte, 0, 4096)
			call := func() {
				var err error
				if out, err = m.Call(ctx, op, in, out[:0]); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 * wornCalls {
				call() // the guest's own memory grows to its size
			}
			if n := testing.AllocsPerRun(2000, call); n != 0 {
				t.Errorf("%v allocations per call", n)
			}
		})
	}
}

// TestGoPolicyMemoryIsFlat is long enough for a guest whose memory is not collected
// to use several times its limit.
func TestGoPolicyMemoryIsFlat(t *testing.T) {
	spec := policies(t)["go"]
	spec.Limits = Limits{Instances: 1, MemoryBytes: 16 << 20}
	m := mustLoad(t, spec, fuelStop{})
	r := request()
	in := r.AppendJSON(nil)
	var out []byte
	for i := range 100_000 {
		var err error
		if out, err = m.Call(context.Background(), OpAdmit, in, out[:0]); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	s := m.Stats()
	if s.Recycled != 0 || s.Discards != 0 {
		t.Errorf("stats %+v", s)
	}
	t.Logf("memory high water %d KiB", s.MemoryHighBytes>>10)
}
