package prelude

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, python, shell string }{
		{"get_weather", "get_weather", "get_weather"},
		{"mcp-list.items", "mcp_listitems", "mcp_list_items"},
		{"get weather\tnow", "get_weather_now", "get_weather_now"},
		{"1st", "_1st", "_1st"},
		{"class", "class_tool", "class"},
		{"if", "if_tool", "if_tool"},
		{"echo", "echo", "echo_tool"},
		{"_ptc_x", "_ptc_x", "_ptc_x_tool"},
		{"__builtins__", "__builtins___tool", "__builtins__"},
		{"--debug--", "__debug___tool", "__debug__"},
		{"__x", "__x", "__x"},
		{"match", "match", "match"},
		{"печать", "tool", "tool"},
		{"data数据", "data", "data"},
		{"--", "__", "__"},
		{"$(id)", "id", "id"},
	} {
		if got := pythonName(c.name); got != c.python {
			t.Errorf("%q in Python: %q, want %q", c.name, got, c.python)
		}
		if got := shellName(c.name); got != c.shell {
			t.Errorf("%q in the shell: %q, want %q", c.name, got, c.shell)
		}
	}
}

func TestCollisions(t *testing.T) {
	got := numbered([]Tool{{Name: "a-b"}, {Name: "a b"}, {Name: "a_b_2"}, {Name: "a_b"}, {Name: "数"}, {Name: "据"}}, pythonName)
	if fmt.Sprint(got) != "[a_b a_b_2 a_b_2_2 a_b_3 tool tool_2]" {
		t.Errorf("%v", got)
	}
	_, err := Bash([]Tool{{Name: "a-b"}, {Name: "a.b"}}, "true")
	ce, ok := errors.AsType[*CollisionError](err)
	if !ok || ce.First != "a-b" || ce.Second != "a.b" || ce.Identifier != "a_b" {
		t.Errorf("%v", err)
	}
}

func TestParameters(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"b":{"type":"object"},"a":{"type":["string","null"]},"c":{}},"required":["a","z"]}`: "[{a true false} {b false true} {c false true}]",
		`{"properties":{"a":{"type":["object","null"]}},"required":"a"}`:                                    "[{a false true}]",
		`{"properties":[]}`: "[]", `{}`: "[]", `7`: "[]", ``: "[]", `true`: "[]", `null`: "[]",
		`{"properties":{"":{},"a":1,"a":2}}`: "[{a false true}]",
	} {
		if got := fmt.Sprint(parameters(json.RawMessage(schema))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestBash(t *testing.T) {
	got, err := Bash([]Tool{{Name: "a-b"}, {Name: "it's; rm -rf /\n"}}, "# first\necho $LINENO")
	want := `a_b() { "$CAISSON_CALL" 'a-b' "$@"; }; its_rm__rf__() { "$CAISSON_CALL" 'it'\''s; rm -rf /` + "\n" + `' "$@"; }; # first` + "\necho $LINENO"
	if err != nil || string(got) != want {
		t.Errorf("%v, %q", err, got)
	}
}

// A program whose text holds everything that needs quoting arrives as it was.
func TestPythonTextArrives(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatalf("python3 is not there: %v", err)
		}
		t.Skip("SKIP: python3 is not there")
	}
	text := "x = '''\n\\n\t\"\"\" \U0001F600 数 \u2028 \x7f {} %s \\u0041 '''\nprint(ascii(x))\nprint(ascii(f.__doc__), f.__name__)"
	file := filepath.Join(t.TempDir(), "main.py")
	if err := os.WriteFile(file, Python([]Tool{{Name: "f", Description: "\\\"'\n数"}}, text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, file).CombinedOutput()
	want := `'\n\n\t""" \U0001f600 \u6570 \u2028 \x7f {} %s A '` + "\n" + `'\\"\'\n\u6570' f` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func FuzzPrelude(f *testing.F) {
	f.Add("a-b", "get.b", `{"properties":{"x":{}}}`, "print(1)")
	f.Add("__builtins__", "--name--", "", "")
	f.Add("class", "it's", `{"required":7,"properties":{"x":{"type":["object"]}}}`, "\xff\U0001F600")
	f.Fuzz(func(t *testing.T, a, b, schema, code string) {
		tools := []Tool{{Name: a, Parameters: json.RawMessage(schema)}, {Name: b}}
		ids := numbered(tools, pythonName)
		if ids[0] == ids[1] {
			t.Errorf("both are %q", ids[0])
		}
		for _, id := range append(ids, shellName(a), shellName(b)) {
			if !identifier.MatchString(id) {
				t.Errorf("identifier %q", id)
			}
		}
		if pythonWords[ids[0]] || reserved(ids[0]) || shellWords[shellName(a)] {
			t.Errorf("%q or %q is a word of the language", ids[0], shellName(a))
		}
		program := Python(tools, code)
		for _, c := range program {
			if c > 0x7e || c < ' ' && c != '\n' {
				t.Fatalf("a byte %#x in %q", c, program)
			}
		}
		if n := strings.Count(string(program), "\n"); n != 1 {
			t.Errorf("%d lines", n)
		}
		script, err := Bash(tools, code)
		if err == nil && !strings.HasSuffix(string(script), code) {
			t.Errorf("%q", script)
		}
	})
}
