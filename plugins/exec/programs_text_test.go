package exec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Rows of the wire's edge cases about what programs are and see.

func TestNamesOfTools(t *testing.T) {
	python(t)
	r := newRig(t)
	tools := []string{"mcp-list.items", "class", "1st", "печать", "数据", "get weather"}
	var seen []string
	note := func(c asked) obj { seen = append(seen, c.Name); return ok(c.ID, c.Name) }
	end, _ := r.drive(alice, r.begin(alice, "py", `
for f in (mcp_listitems, class_tool, _1st, tool, tool_2, get_weather):
    print(f.__name__, await f(city="x"))`, tools), note)
	if end.Status != "completed" || !slices.Equal(seen, tools) {
		t.Errorf("Python: %+v, tools called %q", end, seen)
	}
	seen = nil
	tools = []string{"mcp-list.items", "if", "1st", "печать", "get weather", "_ptc_x", "it's"}
	end, _ = r.drive(alice, r.begin(alice, "bash", `
for f in mcp_list_items if_tool _1st tool get_weather _ptc_x_tool its; do $f '{"city":"x"}'; done`, tools), note)
	if end.Status != "completed" || !slices.Equal(seen, tools) {
		t.Errorf("Bash: %+v, tools called %q", end, seen)
	}
	// Names that Python or what stands in front of the program has a use for.
	seen = nil
	tools = []string{"__builtins__", "__name__", "__file__", "__debug__", "match", "type", "_", "job", "names", "call", "path", "function", "_body"}
	end, _ = r.drive(alice, r.begin(alice, "py", `
if __name__ == "__main__":
    for f in (__builtins___tool, __name___tool, __file___tool, __debug___tool, match, type, _, job, names, call, path, function, _body):
        await f(city="x")
    print(len(__file__) > 0)
    return`, tools), note)
	if end.Status != "completed" || end.Stdout != "True\n" || !slices.Equal(seen, tools) {
		t.Errorf("Python: %+v, tools called %q", end, seen)
	}
	e := into[obj](t, r.begin(alice, "bash", "true", []string{"a-b", "a.b"}), 400)
	if m := fmt.Sprint(e["error"]); !strings.Contains(m, `"a-b"`) || !strings.Contains(m, `"a.b"`) {
		t.Errorf("two tools of one name: %v", e)
	}
}

func TestRequestsForPrograms(t *testing.T) {
	r := newRig(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, c := range []struct {
		name   string
		body   any
		status int
	}{
		{"no code", obj{"lang": "bash"}, 400},
		{"empty code", obj{"lang": "bash", "code": ""}, 400},
		{"another language", obj{"lang": "js", "code": "1"}, 400},
		{"language of another type", obj{"lang": 1, "code": "1"}, 400},
		{"101 tools", obj{"lang": "bash", "code": "true", "tools": defs(many...)}, 400},
		{"a tool twice", obj{"lang": "bash", "code": "true", "tools": defs("a", "a")}, 400},
		{"a tool without a name", obj{"lang": "bash", "code": "true", "tools": []obj{{}}}, 400},
		{"tools of another type", obj{"lang": "bash", "code": "true", "tools": "x"}, 400},
		{"an array", []any{1}, 400},
		{"a session that is no id", obj{"lang": "bash", "code": "true", "session_id": "a/b"}, 400},
		{"the alias of lang", obj{"language": " Bash ", "code": "true"}, 200},
		{"a hint of 500 characters", obj{"lang": "sh", "code": "true", "runtime_session_hint": strings.Repeat("x y", 200)}, 200},
		{"null for all else", obj{"lang": "bash", "code": "true", "tools": nil, "files": nil, "session_id": nil, "timeout": nil, "continuation_token": nil}, 200},
		{"unknown members", obj{"lang": "bash", "code": "true", "apiKey": "s", "intent": obj{}, "user_id": 7, "workspace": []any{}}, 200},
		{"a schema that is none", obj{"lang": "bash", "code": "true", "tools": []obj{{"name": "a", "parameters": 7, "description": 8}}}, 200},
	} {
		if a := r.post(alice, programPath, c.body); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, a.status, a.body, c.status)
		}
	}
	q := r.request("POST", alice, programPath, strings.NewReader("\ufeff"+`{"lang":"bash","code":"echo x"}`+"\n"))
	if a := into[said](t, r.do(q), 200); a.Stdout != "x\n" {
		t.Errorf("%+v", a)
	}
	// A body that is wrong as a whole has the code that a run's has.
	for _, body := range []string{`{"lang":"bash"`, ``, `[]`, `7`, `null`, `"x"`, `{"lang":"bash","code":"echo x"} x`, "{\"lang\":\"bash\",\"code\":\"\xff\"}", `{"lang":"bash","code":7}`} {
		want := into[obj](t, r.do(r.request("POST", alice, "/v1/exec", strings.NewReader(body))), 400)
		if got := into[obj](t, r.do(r.request("POST", alice, programPath, strings.NewReader(body))), 400); got["code"] != want["code"] {
			t.Errorf("%q: %v, for a run %v", body, got, want)
		}
	}
	q = r.request("POST", alice, programPath, strings.NewReader(`{}`))
	q.Header.Set("X-CodeAPI-Expected-Profile", "stateful")
	if a := r.do(q); a.status != 409 {
		t.Errorf("another profile: %d %s", a.status, a.body)
	}
}

func TestProgramsInPython(t *testing.T) {
	python(t)
	r := newRig(t)
	tool := func(c asked) obj { return ok(c.ID, c.Input) }
	for _, c := range []struct{ name, code, stdout, stderr string }{
		{"a line like a frame", `print('{"id":"1","result":1}'); print((await f(city="x"))["city"]); print("call_001")`, `{"id":"1","result":1}` + "\nx\ncall_001\n", ""},
		{"asyncio.run", "import asyncio\nasync def main():\n    print((await f(city='x'))['city'])\nasyncio.run(main())", "x\n", ""},
		{"asyncio.run beside await", "import asyncio\nasync def main():\n    return (await f(city='x'))['city']\nprint(asyncio.run(main()), (await f(city='y'))['city'])", "x y\n", ""},
		{"no await", "print(1)", "1\n", ""},
		{"return", "if True:\n    print(1)\n    return\nprint(2)", "1\n", ""},
		{"return after await", "print((await f(city='x'))['city'])\nreturn\nprint(2)", "x\n", ""},
		{"strings over several lines", "s = '''a\n  b\n'''\nawait f(city='x')\nprint(repr(s))", "'a\\n  b\\n'\n", ""},
		{"star import, global", "from math import *\nx = 1\ndef g():\n    global x\n    x = 2\ng()\nawait f(city='x')\nprint(x, floor(2.5))", "2 2\n", ""},
		{"future import", "from __future__ import annotations\ndef g(a: nope): pass\nprint(g.__annotations__)", "{'a': 'nope'}\n", ""},
		{"main", "if __name__ == '__main__': print(__file__.rsplit('/')[-1])", "main.py\n", ""},
		{"positional", "print(await f('x'), await f('x', 'c'))", "{'city': 'x'} {'city': 'x', 'unit': 'c'}\n", ""},
		{"a dict", "print(await f({'city': 'x'}))", "{'city': 'x'}\n", ""},
		{"None is left out where optional", "print(await f(city=None, unit=None))", "{'city': None}\n", ""},
		{"further arguments", "print(await f(city='x', more=[1, {'a': None}]))", "{'city': 'x', 'more': [1, {'a': None}]}\n", ""},
		{"unicode", "print((await f(city='数\U0001F600é\\ud83d'))['city'][:3])", "数\U0001F600é\n", ""},
		{"signature", "import inspect; print(inspect.signature(f), inspect.iscoroutinefunction(f), f.__doc__)", "(city, unit=None, **kwargs) True a tool\n", ""},
		{"input is at its end", "try:\n    input()\nexcept EOFError:\n    print('EOF')", "EOF\n", ""},
		{"dataclass, pickle", "import dataclasses, pickle\n@dataclasses.dataclass\nclass A:\n    x: int = 1\nprint(pickle.loads(pickle.dumps(A(2))))", "A(x=2)\n", ""},
		{"nothing of ours in the names", "print([n for n in dir() if not n.startswith('__')])", "['ToolExecutionError', 'asyncio', 'f', 'json']\n", ""},
		{"a task group", "import asyncio\na, b = await asyncio.gather(f(city='a'), asyncio.sleep(0.01, 'b'))\nprint(a['city'], b)", "a b\n", ""},
		{"an input beyond the bound", "try:\n    await f(city='x' * (5 << 20))\nexcept ToolExecutionError as e:\n    print(e)", fmt.Sprintf("the input of a tool has more than %d bytes\n", control.MaxValue), ""},
		{"a timeout", "import asyncio\ntry:\n    await asyncio.wait_for(asyncio.sleep(9), 0.01)\nexcept asyncio.TimeoutError:\n    print((await f(city='x'))['city'])", "x\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, _ := r.drive(alice, r.begin(alice, "py", c.code, []string{"f"}), tool)
			if end.Status != "completed" || end.Stdout != c.stdout || end.Stderr != c.stderr {
				t.Errorf("%+v", end)
			}
		})
	}
	for _, c := range []struct{ name, code, stderr string }{
		{"missing argument", "await f()", "TypeError: f() misses the required argument 'city'"},
		{"too many", "await f(1, 2, 3)", "TypeError: f() takes at most 2"},
		{"twice", "await f('x', city='y')", "TypeError: f() got multiple values for argument 'city'"},
		{"no JSON", "await f(city={1})", "TypeError: Object of type set is not JSON serializable"},
		{"syntax", "x = = 1", "SyntaxError"},
		{"exception", "def g():\n    1/0\ng()", "main.py\", line 2, in g\n    1/0\n"},
		{"exception of a tool", "async def g():\n    await f(wrong='x')\nawait g()", "main.py\", line 2, in g\n    await f(wrong='x')\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, _ := r.drive(alice, r.begin(alice, "py", c.code, []string{"f"}), tool)
			if end.Status != "error" || end.Error != "Sandbox exited with code 1" || !strings.Contains(end.Stderr, c.stderr) ||
				strings.Contains(end.Stderr, "<tools>") || strings.Contains(end.Stderr, "asyncio/") {
				t.Errorf("%+v", end)
			}
		})
	}
}

func TestProgramsInBash(t *testing.T) {
	r := newRig(t)
	tool := func(c asked) obj { return ok(c.ID, c.Input) }
	for _, c := range []struct{ name, code, stdout string }{
		{"a pipeline", `f '{"city":"x"}' | tr x y`, `{"city":"y"}` + "\n"},
		{"no input", `f`, "{}\n"},
		{"in the background", `f '{"city":"x"}' > r & wait; cat r`, `{"city":"x"}` + "\n"},
		{"in a group", `{ f '{"city":"x"}'; } > r & wait; cat r`, `{"city":"x"}` + "\n"},
		{"a here document", "cat <<'EOF'\n$x\nEOF\nf", "$x\n{}\n"},
		{"comments first", "# nothing\n#!/bin/bash\nf", "{}\n"},
		{"errors and unset variables stop", "set -eu\nf '{}'", "{}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, _ := r.drive(alice, r.begin(alice, "bash", c.code, []string{"f"}), tool)
			if end.Status != "completed" || end.Stdout != c.stdout || end.Stderr != "" {
				t.Errorf("%+v", end)
			}
		})
	}
}

func TestProgramsHaveFiles(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("in.csv", "1,2"))
	end, _ := r.drive(alice, r.begin(alice, "bash", `cat in.csv; f > out/made.json 2>&1 || mkdir out && f > out/made.json`, []string{"f"}, obj{
		"files": []obj{{"id": up.Files[0].FileID, "name": "in.csv", "storage_session_id": up.SessionID}},
	}), func(c asked) obj { return ok(c.ID, "done") })
	var made, inherited []string
	for _, f := range end.Files {
		if f.Inherited {
			inherited = append(inherited, f.Name)
		} else {
			made = append(made, f.Name)
		}
	}
	if end.Stdout != "1,2" || !slices.Equal(made, []string{"out/made.json"}) || !slices.Equal(inherited, []string{"in.csv"}) || end.SessionID != up.SessionID {
		t.Errorf("%+v", end)
	}
	// Also where the program failed.
	end, _ = r.drive(alice, r.begin(alice, "bash", `echo x > kept.txt; f; exit 3`, []string{"f"}, obj{"session_id": end.SessionID}), func(c asked) obj { return ok(c.ID, 1) })
	if end.Status != "error" || end.Error != "Sandbox exited with code 3" || fileNames(end.Files) != "kept.txt" {
		t.Errorf("%+v", end)
	}
}

// Elements too many are told as such, also where all of the body comes at once.
func TestManyTools(t *testing.T) {
	r := newRig(t)
	tools := []obj{}
	for i := range 101 {
		tools = append(tools, obj{"name": fmt.Sprint("t", i)})
	}
	if e := into[obj](t, r.post(alice, "/exec/programmatic", obj{"code": "1", "tools": tools}), 400); e["error"] != "tools has more than 100 elements" {
		t.Errorf("%v", e)
	}
}
