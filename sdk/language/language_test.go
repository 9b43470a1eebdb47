package language_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/guest/abi"
	"github.com/caisson-run/caisson/sdk/internal/contracttest"
	"github.com/caisson-run/caisson/sdk/language"
)

const schemas = "../../testdata/schemas"

func TestTableContract(t *testing.T) {
	contracttest.Contract{
		Name: "language-table", Dir: schemas, Type: reflect.TypeFor[language.Table](),
		Defs:   map[string]reflect.Type{"language": reflect.TypeFor[language.Language]()},
		Decode: func(data []byte) (any, error) { v, err := language.DecodeTable(data); return &v, err },
		Append: func(dst []byte, v any) []byte { return v.(*language.Table).AppendJSON(dst) },
		Adjust: func(v any) {
			rows := v.(*language.Table).Languages
			for i, id := range []string{"aa", "bb"} {
				rows[i].ID, rows[i].Name = id, "Name <é>"
				rows[i].Aliases, rows[i].Toolchains = []string{id + "+", id + "#"}, []string{"x", "y-1.0"}
			}
		},
	}.Run(t)
}

func TestPlanRequestContract(t *testing.T) {
	contracttest.Contract{
		Name: "language-plan-request", Dir: schemas, Type: reflect.TypeFor[language.PlanRequest](), SkipsUnknown: true,
		Decode: func(data []byte) (any, error) { v, err := language.DecodePlanRequest(data); return &v, err },
		Append: func(dst []byte, v any) []byte { return v.(*language.PlanRequest).AppendJSON(dst) },
	}.Run(t)
}

func TestPlanContract(t *testing.T) {
	contracttest.Contract{
		Name: "language-plan", Dir: schemas, Type: reflect.TypeFor[language.Plan](),
		Defs:   map[string]reflect.Type{"step": reflect.TypeFor[language.Step]()},
		Decode: func(data []byte) (any, error) { v, err := language.DecodePlan(data); return &v, err },
		Append: func(dst []byte, v any) []byte { return v.(*language.Plan).AppendJSON(dst) },
		Adjust: func(v any) {
			p := v.(*language.Plan)
			p.File = "main.x"
			p.Steps[0].Name, p.Steps[0].Args = "compile", nil
			p.Steps[1].Name = "run"
		},
	}.Run(t)
}

func table() language.Table {
	return language.Table{Languages: []language.Language{
		{ID: "py", Name: "Python", Aliases: []string{"python"}, Toolchains: []string{"cpython"}},
		{ID: "js", Name: "JavaScript", Toolchains: []string{"node", "quickjs"}},
	}}
}

func TestTableValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*language.Table)
		want   string
	}{
		"alias taken by alias": {func(t *language.Table) { t.Languages[1].Aliases = []string{"python"} }, `languages[1]: "python" is claimed by "py" and "js"`},
		"alias is an id":       {func(t *language.Table) { t.Languages[1].Aliases = []string{"py"} }, `"py" is claimed by "py" and "js"`},
		"alias of itself":      {func(t *language.Table) { t.Languages[1].Aliases = []string{"js"} }, `"js" is claimed by "js" and "js"`},
		"id twice":             {func(t *language.Table) { t.Languages[1].ID = "py" }, "claimed"},
		"toolchain twice":      {func(t *language.Table) { t.Languages[1].Toolchains[1] = "node" }, `languages[1]: toolchains[1]: "node" is listed twice`},
		"upper-case alias":     {func(t *language.Table) { t.Languages[0].Aliases[0] = "Python" }, "languages[0]: aliases[0]"},
		"long id":              {func(t *language.Table) { t.Languages[0].ID = strings.Repeat("p", 33) }, "languages[0]: id"},
		"too many aliases":     {func(t *language.Table) { t.Languages[0].Aliases = make([]string, 17) }, "aliases: more than 16"},
		"too many toolchains":  {func(t *language.Table) { t.Languages[0].Toolchains = make([]string, 17) }, "toolchains: more than 16"},
		"too many languages":   {func(t *language.Table) { t.Languages = make([]language.Language, 257) }, "languages: more than 256"},
		"name with a newline":  {func(t *language.Table) { t.Languages[0].Name = "Py\nthon" }, "languages[0]: name"},
	} {
		t.Run(name, func(t *testing.T) {
			v := table()
			if err := v.Validate(); err != nil {
				t.Fatal(err)
			}
			tc.change(&v)
			if err := v.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func plan() language.Plan {
	return language.Plan{
		File: "main.c", Env: map[string]string{"A": "{dir}"},
		Steps: []language.Step{
			{Name: "compile", Argv: []string{"cc", "{dir}/main.c"}},
			{Name: "run", Argv: []string{"{dir}/main"}, Args: []string{"a", ""}},
		},
	}
}

func TestPlanValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*language.Plan)
		want   string
	}{
		"arguments to the compiler": {func(p *language.Plan) { p.Steps[0].Args = []string{"-x"} }, "steps[0]: args: only the last step"},
		"empty command":             {func(p *language.Plan) { p.Steps[1].Argv[0] = "" }, "steps[1]: argv: names no command"},
		"long element":              {func(p *language.Plan) { p.Steps[1].Argv[0] = strings.Repeat("x", 4097) }, "steps[1]: argv[0]: is longer"},
		"too many steps":            {func(p *language.Plan) { p.Steps = make([]language.Step, 9) }, "steps: more than 8"},
		"too long argv":             {func(p *language.Plan) { p.Steps[0].Argv = append(p.Steps[0].Argv, make([]string, 64)...) }, "argv: more than 64"},
		"too many args":             {func(p *language.Plan) { p.Steps[1].Args = make([]string, 4097) }, "args: more than 4096"},
		"NUL in env":                {func(p *language.Plan) { p.Env["A"] = "a\x00" }, "env.A: holds a NUL"},
		"separator":                 {func(p *language.Plan) { p.File = "a/b.c" }, "file:"},
		"backslash":                 {func(p *language.Plan) { p.File = `a\b.c` }, "file:"},
		"dots":                      {func(p *language.Plan) { p.File = ".." }, "file:"},
		"long file":                 {func(p *language.Plan) { p.File = strings.Repeat("f", 129) }, "file:"},
		"newline":                   {func(p *language.Plan) { p.File = "a\n.c" }, "file:"},
		"too many variables": {func(p *language.Plan) {
			for i := range 65 {
				p.Env["V"+strings.Repeat("x", i)] = ""
			}
		}, "env: more than 64"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan()
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			tc.change(&p)
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestCheckArgs(t *testing.T) {
	p := plan()
	if err := p.CheckArgs([]string{"a", ""}); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{nil, {"a"}, {"a", "", "b"}, {"", "a"}} {
		if p.CheckArgs(args) == nil {
			t.Errorf("%q passes for %q", args, p.Steps[1].Args)
		}
	}
	p.Steps[1].Args = nil
	if err := p.CheckArgs([]string{}); err != nil {
		t.Errorf("empty and absent arguments differ: %v", err)
	}
	if (&language.Plan{}).CheckArgs(nil) == nil {
		t.Error("a plan without steps passes")
	}
}

func TestDecodeBounds(t *testing.T) {
	if _, err := language.DecodeTable(make([]byte, language.MaxTableBytes+1)); err == nil || !strings.Contains(err.Error(), "size in bytes: more than") {
		t.Errorf("table: %v", err)
	}
	if _, err := language.DecodePlan(make([]byte, language.MaxPlanBytes+1)); err == nil || !strings.Contains(err.Error(), "size in bytes: more than") {
		t.Errorf("plan: %v", err)
	}
}

func TestServe(t *testing.T) {
	language.Serve(table(), func(r language.PlanRequest) (language.Plan, error) {
		switch r.Language {
		case "py":
			p := plan()
			p.Steps[1].Args = r.Args
			return p, nil
		case "bad":
			return language.Plan{File: "../x"}, nil
		}
		return language.Plan{}, &guest.Error{Code: language.CodeUnknownLanguage, Message: "no language " + r.Language}
	})
	out, err := guest.Invoke(abi.OpList, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := language.DecodeTable(out); err != nil || !reflect.DeepEqual(got, table()) {
		t.Errorf("list: %+v, %v", got, err)
	}
	request := language.PlanRequest{Language: "py", Toolchain: "cpython", Args: []string{"--", "{dir}"}}
	out, err = guest.Invoke(abi.OpPlan, request.AppendJSON(nil))
	if err != nil {
		t.Fatal(err)
	}
	p, err := language.DecodePlan(out)
	if err == nil {
		err = p.CheckArgs(request.Args)
	}
	if err != nil {
		t.Errorf("plan: %v", err)
	}
	for in, code := range map[string]string{
		`{"language":"x","toolchain":"y"}`: language.CodeUnknownLanguage,
		`{"language":"bad"}`:               "bad_plan",
		`{"language":7}`:                   abi.CodeBadInput,
	} {
		_, err := guest.Invoke(abi.OpPlan, []byte(in))
		if e, ok := errors.AsType[*abi.Error](err); !ok || e.Code != code {
			t.Errorf("%s: got %v", in, err)
		}
	}
}

func TestServeRefusesABadTable(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(p.(string), "languages: is empty") {
			t.Errorf("panic %v", p)
		}
	}()
	language.Serve(language.Table{}, nil)
}

func FuzzDecodeTable(f *testing.F) {
	f.Add([]byte(`{"languages":[{"advertised":true,"aliases":["c++"],"id":"cpp","name":"C++","toolchains":["g++"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := language.DecodeTable(data)
		if err != nil {
			return
		}
		again, err := language.DecodeTable(v.AppendJSON(nil))
		if err != nil || string(again.AppendJSON(nil)) != string(v.AppendJSON(nil)) {
			t.Fatalf("%q: came back as %+v, %v", data, again, err)
		}
	})
}

func FuzzDecodePlan(f *testing.F) {
	p := plan()
	f.Add(p.AppendJSON(nil))
	f.Add([]byte(`{"file":"../a","steps":[{"argv":["x"],"name":"run"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := language.DecodePlan(data)
		if err != nil {
			return
		}
		if strings.ContainsAny(p.File, "/\\\x00{") || p.File[0] == '.' || p.File[0] == '-' {
			t.Fatalf("file %q", p.File)
		}
		for _, s := range p.Steps[:len(p.Steps)-1] {
			if len(s.Args) > 0 {
				t.Fatalf("arguments reach step %q", s.Name)
			}
		}
		again, err := language.DecodePlan(p.AppendJSON(nil))
		if err != nil || string(again.AppendJSON(nil)) != string(p.AppendJSON(nil)) {
			t.Fatalf("%q: came back as %+v, %v", data, again, err)
		}
	})
}
