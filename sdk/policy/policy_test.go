package policy_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/guest/abi"
	"github.com/caisson-run/caisson/sdk/internal/contracttest"
	"github.com/caisson-run/caisson/sdk/policy"
)

const schemas = "../../testdata/schemas"

func TestRequestContract(t *testing.T) {
	contracttest.Contract{
		Name: "policy-request", Dir: schemas, Type: reflect.TypeFor[policy.Request](), SkipsUnknown: true,
		Defs:   map[string]reflect.Type{"file": reflect.TypeFor[policy.File](), "limits": reflect.TypeFor[policy.Limits]()},
		Decode: func(data []byte) (any, error) { r, err := policy.DecodeRequest(data); return &r, err },
		Append: func(dst []byte, v any) []byte { return v.(*policy.Request).AppendJSON(dst) },
	}.Run(t)
}

func TestVerdictContract(t *testing.T) {
	contracttest.Contract{
		Name: "policy-verdict", Dir: schemas, Type: reflect.TypeFor[policy.Verdict](),
		Defs:   map[string]reflect.Type{"limits": reflect.TypeFor[policy.Limits]()},
		Decode: func(data []byte) (any, error) { v, err := policy.DecodeVerdict(data); return &v, err },
		Append: func(dst []byte, v any) []byte { return v.(*policy.Verdict).AppendJSON(dst) },
		Adjust: func(v any) {
			w := v.(*policy.Verdict)
			w.Decision, w.Code, w.Reason = policy.Deny, "a_code", "why <é>"
		},
	}.Run(t)
}

func TestOutcomeContract(t *testing.T) {
	contracttest.Contract{
		Name: "policy-outcome", Dir: schemas, Type: reflect.TypeFor[policy.Outcome](), SkipsUnknown: true,
		Defs: map[string]reflect.Type{
			"request": reflect.TypeFor[policy.Request](), "file": reflect.TypeFor[policy.File](), "limits": reflect.TypeFor[policy.Limits](),
		},
		Decode: func(data []byte) (any, error) { o, err := policy.DecodeOutcome(data); return &o, err },
		Append: func(dst []byte, v any) []byte { return v.(*policy.Outcome).AppendJSON(dst) },
	}.Run(t)
}

func TestRemarksContract(t *testing.T) {
	contracttest.Contract{
		Name: "policy-remarks", Dir: schemas, Type: reflect.TypeFor[policy.Remarks](),
		Defs:   map[string]reflect.Type{"remark": reflect.TypeFor[policy.Remark]()},
		Decode: func(data []byte) (any, error) { m, err := policy.DecodeRemarks(data); return &m, err },
		Append: func(dst []byte, v any) []byte { return v.(*policy.Remarks).AppendJSON(dst) },
		Adjust: func(v any) {
			for i := range v.(*policy.Remarks).Warnings {
				v.(*policy.Remarks).Warnings[i] = policy.Remark{Code: "a_code", Reason: "why <é>"}
			}
		},
	}.Run(t)
}

func TestDecodeVerdictRefusals(t *testing.T) {
	for in, want := range map[string]string{
		``:                                       "verdict: json: want an object",
		`{"decision":"deny"}`:                    "verdict: reason: is required",
		`{"decision":"allow","decision":"deny"}`: `duplicate member "decision"`,
		`{"decision":"allow","limits":{"wall_ms":-5}}`:                                        "verdict: limits.wall_ms: is negative",
		`{"decision":"allow","limits":{"wall_ms":"5"}}`:                                       "json: limits.wall_ms: want a number",
		`{"decision":"allow"} {}`:                                                             "unexpected text",
		`{"decision":"deny","reason":"` + strings.Repeat("x", 1025) + `"}`:                    "longer than 1024",
		`{"decision":"allow","reason":"` + strings.Repeat("x", policy.MaxVerdictBytes) + `"}`: "longer than 16384",
	} {
		v, err := policy.DecodeVerdict([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", in, err, want)
		}
		if v != (policy.Verdict{}) {
			t.Errorf("%.60s: an error came with the verdict %+v", in, v)
		}
	}
}

func TestTighten(t *testing.T) {
	in := policy.Limits{WallMS: 100, MemoryBytes: 50}
	got := in.Tighten(policy.Limits{WallMS: 200, MemoryBytes: 20, CPUMS: 7, Processes: -1})
	if want := (policy.Limits{WallMS: 100, MemoryBytes: 20, CPUMS: 7}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	// Every member takes part: a limit forgotten in Tighten would stay unbounded.
	var all policy.Limits
	v := reflect.ValueOf(&all).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i) + 1)
	}
	if got := (policy.Limits{}).Tighten(all); got != all {
		t.Errorf("got %v, want %v", got, all)
	}
	if got := all.Tighten(policy.Limits{}); got != all {
		t.Errorf("got %v, want %v", got, all)
	}
}

func TestLimitsString(t *testing.T) {
	if got := (policy.Limits{WallMS: 5, ChangedFiles: 2}).String(); got != "changed_files=2 wall_ms=5" {
		t.Errorf("got %q", got)
	}
}

// TestServe goes through the handlers as a host would. ServeConfig cannot be
// served beside it, one module being one policy; its own test is in the module
// under plugins/policies.
func TestServe(t *testing.T) {
	policy.Serve(func(r policy.Request) policy.Verdict {
		switch r.Org {
		case "panics":
			panic("oh")
		case "mute":
			return policy.Verdict{}
		}
		return policy.Verdict{Decision: policy.Deny, Reason: r.Language + " is out"}
	})
	ask := func(r policy.Request) (policy.Verdict, error) {
		out, err := guest.Invoke(abi.OpAdmit, r.AppendJSON(nil))
		if err != nil {
			return policy.Verdict{}, err
		}
		return policy.DecodeVerdict(out)
	}
	if v, err := ask(policy.Request{Org: "acme", Language: "py"}); err != nil || v.Reason != "py is out" {
		t.Errorf("got %+v, %v", v, err)
	}
	for org, code := range map[string]string{"panics": abi.CodePanic, "mute": "bad_verdict"} {
		_, err := ask(policy.Request{Org: org})
		if e, ok := errors.AsType[*abi.Error](err); !ok || e.Code != code {
			t.Errorf("%s: got %v", org, err)
		}
	}
	_, err := guest.Invoke(abi.OpAdmit, []byte(`{"org":1}`))
	if e, ok := errors.AsType[*abi.Error](err); !ok || e.Code != abi.CodeBadInput {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeVerdict(f *testing.F) {
	f.Add([]byte(`{"code":"tightened","decision":"allow","limits":{"memory_bytes":67108864},"reason":"é"}`))
	f.Add([]byte(`{"decision":"deny"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := policy.DecodeVerdict(data)
		if err != nil {
			return
		}
		again, err := policy.DecodeVerdict(v.AppendJSON(nil))
		if err != nil || again != v {
			t.Fatalf("%q: %+v came back as %+v, %v", data, v, again, err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"args":["a"],"files":[{"name":"x","size":-1}],"limits":{"wall_ms":1},"org":"o","later":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := policy.DecodeRequest(data)
		if err != nil {
			return
		}
		again, err := policy.DecodeRequest(r.AppendJSON(nil))
		if err != nil || string(again.AppendJSON(nil)) != string(r.AppendJSON(nil)) {
			t.Fatalf("%q: %+v came back as %+v, %v", data, r, again, err)
		}
	})
}

func FuzzDecodeRemarks(f *testing.F) {
	f.Add([]byte(`{"warnings":[{"code":"a","reason":"é"},{"reason":"b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := policy.DecodeRemarks(data)
		if err != nil {
			return
		}
		if again, err := policy.DecodeRemarks(m.AppendJSON(nil)); err != nil || !reflect.DeepEqual(again, m) && len(m.Warnings) > 0 {
			t.Fatalf("%q: %+v came back as %+v, %v", data, m, again, err)
		}
	})
}
