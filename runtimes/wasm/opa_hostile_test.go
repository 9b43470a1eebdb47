package wasm

import (
	"errors"
	"strings"
	"testing"
)

// opaGuest assembles what opa could have made, of values that are JSON themselves: eval
// calls sprintf once, and each function of during does whatever is put in front of it.
func opaGuest(during map[string]func(builtin []byte) []byte) []byte {
	a := &asm{}
	at := map[string]int32{}
	text := func(s string) []byte {
		if _, ok := at[s]; !ok {
			at[s] = dataAt + int32(len(a.data))
			a.data = append(a.data, s+"\x00"...)
		}
		return i32Const(at[s])
	}
	one, two := []byte{tI32}, []byte{tI32, tI32}
	sprintf := a.importFunc(envModule, "opa_builtin2", []byte{tI32, tI32, tI32, tI32}, one)
	builtin := code(i32Const(0), i32Const(0), text(opaFormat), text("[]"), call(sprintf), opDrop)
	for _, f := range []struct {
		name                  string
		params, results, body []byte
	}{
		{"opa_malloc", one, one, i32Const(inputAt)},
		{"opa_json_parse", two, one, get(0)},
		{"opa_json_dump", one, one, get(0)},
		{"opa_heap_ptr_get", nil, one, i32Const(inputAt)},
		{"opa_heap_ptr_set", one, nil, nil},
		{"opa_eval_ctx_new", nil, one, i32Const(0)},
		{"opa_eval_ctx_set_input", two, nil, nil},
		{"opa_eval_ctx_set_data", two, nil, nil},
		{"opa_eval_ctx_set_entrypoint", two, nil, nil},
		{"eval", one, one, code(builtin, i32Const(0))},
		{"opa_eval_ctx_get_result", one, one, text(`[{"result":"yes"}]`)},
		{"builtins", nil, one, text(`{"sprintf":0}`)},
		{"entrypoints", nil, one, text(`{"caisson/verdict":0}`)},
	} {
		if first := during[f.name]; first != nil {
			f.body = code(first(builtin), f.body)
		}
		a.export(f.name, a.fn(f.params, f.results, f.body))
	}
	a.exportGlobal("opa_wasm_abi_version", opaMajor)
	a.exportGlobal("opa_wasm_abi_minor_version", opaLeastMinor)
	a.exportMemory(1)
	return a.bytes()
}

// opaFormat is what opaGuest has formatted: no other text of it is as long when the
// result is made.
const opaFormat = `"seven"`

// Functions that the host calls while it works for a policy cannot have it work again:
// they would be entered while they are active.
func TestRegoBuiltinsDoNotNest(t *testing.T) {
	always := func(builtin []byte) []byte { return builtin }
	// whenLong is for the text that the result of sprintf is.
	whenLong := func(local int) func([]byte) []byte {
		return func(builtin []byte) []byte {
			return code(get(local), i32Const(int32(len(opaFormat))), opI32Eq, opIf, blockVoid, builtin, opEnd)
		}
	}
	for name, c := range map[string]struct {
		during map[string]func([]byte) []byte
		load   bool // it does not even start
		refuse bool
	}{
		"nowhere else":         {},
		"twice":                {during: map[string]func([]byte) []byte{"eval": always}},
		"dump":                 {during: map[string]func([]byte) []byte{"opa_json_dump": always}, load: true, refuse: true},
		"dump of an argument":  {during: map[string]func([]byte) []byte{"opa_json_dump": func(b []byte) []byte { return whenOp(dataAt, b) }}, refuse: true},
		"malloc for a result":  {during: map[string]func([]byte) []byte{"opa_malloc": whenLong(0)}, refuse: true},
		"parsing a result":     {during: map[string]func([]byte) []byte{"opa_json_parse": whenLong(1)}, refuse: true},
		"malloc":               {during: map[string]func([]byte) []byte{"opa_malloc": always}, load: true, refuse: true},
		"parse":                {during: map[string]func([]byte) []byte{"opa_json_parse": always}, load: true, refuse: true},
		"before an evaluation": {during: map[string]func([]byte) []byte{"opa_eval_ctx_new": always}, refuse: true},
		"after an evaluation":  {during: map[string]func([]byte) []byte{"opa_eval_ctx_get_result": always}, refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Name: "hostile", Module: opaGuest(c.during), ABI: ABIOPA, CacheDir: cacheDir}
			spec.Limits.Instances = 1
			m, err := Load(t.Context(), spec)
			if err == nil {
				defer mustClose(t, m)
				for range 3 { // the instance that follows one that trapped is like it
					var out []byte
					out, err = m.Call(t.Context(), OpAdmit, []byte("{}"), nil)
					if !c.refuse && (err != nil || string(out) != `"yes"`) {
						t.Errorf("%s %v", out, err)
					}
				}
			}
			if c.load != (m == nil) {
				t.Errorf("loaded: %v", err)
			}
			failed, ok := errors.AsType[*CallError](err)
			if c.refuse && (!ok || failed.Reason != ReasonTrap || !strings.Contains(err.Error(), "called by something else than eval")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
