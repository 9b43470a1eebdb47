package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/language"
)

func tables() *Host {
	var l languages
	planner := func(name string) module {
		return scripted(func(_ context.Context, op uint32, in []byte) ([]byte, error) {
			if op != wasm.OpPlan {
				return nil, errors.New("wrong op")
			}
			r, err := language.DecodePlanRequest(in)
			if err != nil {
				return nil, err
			}
			p := language.Plan{File: "main", Steps: []language.Step{{Name: "run", Argv: []string{name, r.Language, r.Toolchain}, Args: r.Args}}}
			return p.AppendJSON(nil), nil
		})
	}
	l.add("first", planner("first"), nil, language.Table{Languages: []language.Language{
		{ID: "rb", Name: "Ruby", Toolchains: []string{"ruby"}},
		{ID: "py", Name: "Python", Aliases: []string{"python", "rb"}, Toolchains: []string{"pypy", "cpython"}, Advertised: true},
		{ID: "js", Name: "JavaScript", Aliases: []string{"node"}, Toolchains: []string{"node"}, Advertised: true},
		{ID: "ts", Name: "TypeScript", Toolchains: []string{"deno"}, Advertised: true},
	}})
	l.add("second", planner("second"), nil, language.Table{Languages: []language.Language{
		{ID: "js", Name: "JavaScript", Aliases: []string{"javascript"}, Toolchains: []string{"quickjs"}, Advertised: true},
	}})
	return serve(&moduleSet{languages: l})
}

var target = session.Target{Languages: []backend.LanguageSupport{
	{ID: "py", Toolchain: "cpython", Version: "3.11"},
	{ID: "py", Toolchain: "pypy", Missing: "run make packs"},
	{ID: "js", Toolchain: "quickjs"},
	{ID: "ts", Toolchain: "deno", Missing: "run make packs"},
}}

func TestOffers(t *testing.T) {
	var got []string
	for _, o := range tables().Offers(target) {
		got = append(got, strings.TrimSpace(o.ID+" "+o.Toolchain+" "+o.Missing))
	}
	want := []string{
		"py cpython", "js quickjs", "ts deno run make packs",
		"rb  this backend has no toolchain for it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("offers %q, want %q", got, want)
	}
}

func TestPlan(t *testing.T) {
	h := tables()
	for spelled, want := range map[string]string{
		"py": "first py cpython", " Python\t": "first py cpython", "js": "second js quickjs", "JavaScript": "second js quickjs",
	} {
		id, toolchain, p, err := h.Plan(t.Context(), target, spelled, []string{"a b"})
		if err != nil || strings.Join(p.Steps[0].Argv, " ") != want || !slices.Equal(p.Steps[0].Args, []string{"a b"}) || !strings.HasSuffix(want, id+" "+toolchain) {
			t.Errorf("Plan(%q) = %q %q %+v, %v; want %s", spelled, id, toolchain, p, err, want)
		}
	}
	// An alias of the replaced row went with it, and an alias never hides an id.
	for spelled, missing := range map[string]string{
		"node": "", "brainfuck": "", "": "", "ts": "run make packs", "rb": "this backend has no toolchain for it", strings.Repeat("ü", 100): "",
	} {
		_, _, _, err := h.Plan(t.Context(), target, spelled, nil)
		var le *LanguageError
		if !errors.As(err, &le) || le.Missing != missing || !slices.Equal(le.Offered, []string{"py", "js"}) || len(le.Language) > 40 {
			t.Errorf("Plan(%q) = %v, want a LanguageError, missing %q", spelled, err, missing)
		}
	}
}

func TestPlanOfABrokenTable(t *testing.T) {
	for _, reply := range []string{"", "{}", `{"file":"../x","steps":[{"name":"run","argv":["x"]}]}`, `{"file":"x","steps":[]}`, `{"file":"x","steps":[{"name":"run","argv":["x"],"args":["other"]}]}`} {
		var l languages
		l.add("bad", answer(reply), nil, language.Table{Languages: []language.Language{{ID: "py", Toolchains: []string{"cpython"}}}})
		_, _, _, err := serve(&moduleSet{languages: l}).Plan(t.Context(), target, "py", nil)
		var le *LanguageError
		if err == nil || errors.As(err, &le) {
			t.Errorf("reply %q: err = %v, want a failure of the table", reply, err)
		}
	}
}

// What a table does not take is the caller's, what is wrong with it is not.
func TestPlanErrors(t *testing.T) {
	call := func(reason wasm.Reason, err error) error {
		return &wasm.CallError{Module: "m", Op: wasm.OpPlan, Reason: reason, Err: err}
	}
	for _, tt := range []struct {
		err     error
		refused string
		again   bool
	}{
		{err: call(wasm.ReasonGuest, &wasm.GuestError{Code: "no_arguments", Message: "takes none"}), refused: "takes none"},
		{err: call(wasm.ReasonGuest, &wasm.GuestError{Code: language.CodeUnknownToolchain, Message: "which?"})},
		{err: call(wasm.ReasonBadInput, nil), refused: "longer than the language's table takes"},
		{err: call(wasm.ReasonTimeout, nil), again: true},
		{err: call(wasm.ReasonBusy, nil), again: true},
		{err: call(wasm.ReasonTrap, errors.New("unreachable"))},
	} {
		var l languages
		l.add("table", scripted(func(context.Context, uint32, []byte) ([]byte, error) { return nil, tt.err }), nil, language.Table{
			Languages: []language.Language{{ID: "py", Name: "Python", Toolchains: []string{"cpython"}}},
		})
		_, _, _, err := serve(&moduleSet{languages: l}).Plan(t.Context(), target, "py", []string{"x"})
		var pe *PlanError
		if !errors.As(err, &pe) || pe.Refused != tt.refused || pe.Again != tt.again || !errors.Is(err, tt.err) ||
			!strings.HasPrefix(err.Error(), `language table "table": plan py by cpython: `) {
			t.Errorf("%v: %+v", tt.err, err)
		}
	}
}
