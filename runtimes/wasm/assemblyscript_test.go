package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
)

// asSDK is sdk/assemblyscript/testdata/policy.ts, built.
func asSDK(tb testing.TB) Spec {
	tb.Helper()
	b, err := os.ReadFile("../../sdk/assemblyscript/testdata/policy.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	return Spec{Name: "as-sdk", Module: b, Imports: []string{"log", "now_ms", "rand"}, Deterministic: true}
}

// The SDK in AssemblyScript reads what the host writes, whatever is in it.
func TestAssemblyScriptReads(t *testing.T) {
	m := mustLoad(t, asSDK(t), fuelStop{})
	text := "\x00\x1f\"\\/\u2028é\U0001F600"
	o := policy.Outcome{
		Request: policy.Request{
			Org: "o" + text, User: "u", Via: "bearer", Session: "s", Language: "py", Toolchain: "t", Config: "c", Network: "open",
			Limits:    policy.Limits{WallMS: 1, CPUMS: 2, MemoryBytes: 1<<63 - 1, Processes: 4, StdoutBytes: 5, StderrBytes: 6, ChangedFiles: 7, ChangedFileBytes: 8},
			CodeBytes: 9, Code: text, Args: []string{"", text}, Files: []policy.File{{Name: "f" + text, Size: -1}},
		},
		Stop: "exit", ExitCode: -1, Signal: "SIGKILL", WallMS: 10, CPUMS: 11, PeakMemoryBytes: 12, StdoutBytes: 13, StderrBytes: 14,
		Stdout: "out", Stderr: text, Changed: []policy.File{{Name: "g", Size: 15}},
	}
	out, err := m.Call(t.Context(), opEcho+1, o.AppendJSON(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	want := []any{
		"o" + text, "u", "bearer", "s", "py", "t", "c", "open", text, "exit", "SIGKILL", "out", text, "", text, "f" + text + " -1", "g 15",
		1.0, 2.0, float64(1<<63 - 1), 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, -1.0, 10.0, 11.0, 12.0, 13.0, 14.0,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// Members that a later host may add are skipped.
	later := strings.Replace(string(o.AppendJSON(nil)), "{", `{"a_later_member":{"x":[1.5e3,"\\",null,true,{}]},`, 1)
	if again, err := m.Call(t.Context(), opEcho+1, []byte(later), nil); err != nil || string(again) != string(out) {
		t.Errorf("%s %v", again, err)
	}
}

func TestAssemblyScriptJSON(t *testing.T) {
	spec := asSDK(t)
	spec.Limits.Instances = 1
	m := mustLoad(t, spec, fuelStop{})
	for in, want := range map[string]string{
		`"a"`: "a", ` "\u00e9\ud83d\ude00\n\/" `: "é\U0001F600\n/", `"é"`: "é", `""`: "", `"\ud800"`: "\uFFFD",
	} {
		out, err := m.Call(t.Context(), opEcho, []byte(in), nil)
		var got string
		if err != nil || json.Unmarshal(out, &got) != nil || got != want {
			t.Errorf("%s: %s %v", in, out, err)
		}
	}
	for _, in := range []string{"", "a", `"`, `"\`, `"\u12`, `"\x"`, `"a" b`, "\"\n\"", "1"} {
		out, err := m.Call(t.Context(), opEcho, []byte(in), nil)
		if refusal, ok := errors.AsType[*GuestError](err); !ok || refusal.Code != "bad_input" {
			t.Errorf("%q: %s %v", in, out, err)
		}
	}
	for _, in := range []string{
		"", "{", `{"org":1}`, `{"org":"a","org"}`, `{"args":{}}`, `{"args":["a",]}`, `{"limits":{"wall_ms":"1"}}`, `{"limits":{"wall_ms":99999999999999999999}}`,
		`{"code_bytes":1.5}`, `{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `{} {}`, `[]`, `{"a":tru}`, `{"a":}`,
	} {
		_, err := m.Call(t.Context(), OpAdmit, []byte(in), nil)
		if refusal, ok := errors.AsType[*GuestError](err); !ok || refusal.Code != "bad_input" {
			t.Errorf("%q: %v", in, err)
		}
	}
	if s := m.Stats(); s.Discards != 0 {
		t.Errorf("%+v", s)
	}
}

// A module gets the time and bytes of the host, which are always the same for one that is
// to be deterministic.
func TestAssemblyScriptAsksTheHost(t *testing.T) {
	ask := func(m *Module, in string) (numbers []int64) {
		t.Helper()
		out, err := m.Call(t.Context(), opEcho+2, []byte(in), nil)
		if err != nil || json.Unmarshal(out, &numbers) != nil {
			t.Fatalf("%s: %s %v", in, out, err)
		}
		return numbers
	}
	spec := asSDK(t)
	fixed := mustLoad(t, spec, fuelStop{})
	want := append([]int64{fixedTime.UnixMilli()}, make([]int64, 32)...)
	for _, in := range []string{"true", " true\n"} {
		if got := ask(fixed, in); !slices.Equal(got, want) {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
	if got := ask(fixed, " false "); len(got) != 0 {
		t.Errorf("%d", got)
	}
	for _, in := range []string{"", "tru", "truely", "true false", "1", `"true"`, "null", "fals"} {
		out, err := fixed.Call(t.Context(), opEcho+2, []byte(in), nil)
		if refusal, ok := errors.AsType[*GuestError](err); !ok || refusal.Code != "bad_input" {
			t.Errorf("%q: %s %v", in, out, err)
		}
	}
	spec.Deterministic = false
	free := mustLoad(t, spec, fuelStop{})
	before := time.Now().UnixMilli()
	got := ask(free, "true")
	after := time.Now().UnixMilli()
	if len(got) != 33 || got[0] < before || got[0] > after || slices.Equal(got[1:17], got[17:]) || slices.Max(got[1:]) > 255 {
		t.Errorf("%d, asked from %d to %d", got, before, after)
	}
}

func TestAssemblyScriptReviews(t *testing.T) {
	spec := asSDK(t)
	spec.Limits.Instances = 1
	m := mustLoad(t, spec, fuelStop{})
	look := func(o policy.Outcome) (policy.Remarks, error) {
		out, err := m.Call(t.Context(), OpResult, o.AppendJSON(nil), nil)
		if err != nil {
			return policy.Remarks{}, err
		}
		return policy.DecodeRemarks(out)
	}
	o := policy.Outcome{Request: request(), Stop: "exit"}
	if r, err := look(o); err != nil || len(r.Warnings) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	o.Stdout = `AKIA"\é`
	if r, err := look(o); err != nil || !slices.Equal(r.Warnings, []policy.Remark{{Code: "key_in_output", Reason: `py wrote a key: "AKIA"\é"`}}) {
		t.Errorf("%+v %v", r, err)
	}
	// A throw costs its own call.
	o.Stop = "throw"
	var failed *CallError
	if _, err := look(o); !errors.As(err, &failed) || failed.Reason != ReasonTrap {
		t.Errorf("%v", err)
	}
	o.Stop, o.Stdout = "exit", ""
	if r, err := look(o); err != nil || len(r.Warnings) != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestAssemblyScriptConfig(t *testing.T) {
	spec := asSDK(t)
	spec.Config = []byte(`{"denied":["php","é"]}`)
	m := mustLoad(t, spec, fuelStop{})
	r := request()
	r.Language = "é"
	out, err := m.Call(t.Context(), OpAdmit, r.AppendJSON(nil), nil)
	if v, err2 := policy.DecodeVerdict(out); err != nil || err2 != nil || v.Reason != "é is not allowed here" {
		t.Errorf("%s %v %v", out, err, err2)
	}
	for config, want := range map[string]string{
		`{"zone":1}`: "zone: unknown member", `{"denied":[""]}`: "denied: want no empty words", `{"denied":7}`: "not what was expected",
	} {
		spec.Config = []byte(config)
		m, err := Load(t.Context(), spec)
		if err == nil {
			mustClose(t, m)
		}
		if refusal, ok := errors.AsType[*GuestError](err); !ok || refusal.Code != "bad_config" || !strings.Contains(refusal.Message, want) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// What a call leaves behind is collected.
func TestAssemblyScriptMemoryIsFlat(t *testing.T) {
	spec := asSDK(t)
	spec.Limits = Limits{Instances: 1, MemoryBytes: 4 << 20}
	m := mustLoad(t, spec, fuelStop{})
	r := request()
	r.Code = strings.Repeat("print('é\\n')\n", 500)
	in := r.AppendJSON(nil)
	var out []byte
	var early int64
	const n = 20_000
	for i := range n {
		var err error
		if out, err = m.Call(context.Background(), OpAdmit, in, out[:0]); err != nil {
			t.Fatal(fmt.Errorf("call %d: %w", i, err))
		}
		if i == n/10 {
			early = m.Stats().MemoryHighBytes
		}
	}
	s := m.Stats()
	if s.Recycled+s.Discards != 0 || s.MemoryHighBytes != early {
		t.Errorf("%d bytes, then %d; %+v", early, s.MemoryHighBytes, s)
	}
	t.Logf("memory high water %d KiB", s.MemoryHighBytes>>10)
}
