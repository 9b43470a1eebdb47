package exec

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/programmatic"
)

// said is what a request about a program was answered with.
type said struct {
	Status            string
	ContinuationToken string  `json:"continuation_token"`
	ToolCalls         []asked `json:"tool_calls"`
	SessionID         string  `json:"session_id"`
	Error             string
	Stdout, Stderr    string
	Files             []CodeFile
	Code              *int
}

type asked struct {
	ID, Name string
	Input    obj
}

const programPath = "/v1/exec/programmatic"

// python skips a test where there is no Python to test with, and fails it where
// everything must be there.
func python(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("python3")
	switch {
	case err == nil:
	case os.Getenv("CAISSON_CI") != "":
		t.Fatalf("python3 is not there: %v", err)
	default:
		t.Skip("SKIP: python3 is not there")
	}
}

// begin sends the first request of a program with tools of these names.
func (r *rig) begin(key, lang, code string, tools []string, more ...obj) answer {
	r.t.Helper()
	body := obj{"lang": lang, "code": code, "tools": defs(tools...), "timeout": 10_000}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return r.post(key, programPath, body)
}

func defs(names ...string) []obj {
	out := []obj{}
	for _, n := range names {
		out = append(out, obj{"name": n, "description": "a tool", "parameters": obj{
			"type": "object", "properties": obj{"city": obj{"type": "string"}, "unit": obj{"type": "string"}}, "required": []string{"city"},
		}})
	}
	return out
}

// goOn answers a round.
func (r *rig) goOn(key, token string, results ...obj) answer {
	r.t.Helper()
	if results == nil {
		results = []obj{}
	}
	return r.post(key, programPath, obj{"continuation_token": token, "tool_results": results})
}

func ok(id string, v any) obj { return obj{"call_id": id, "result": v, "is_error": false} }

func failed(id, message string) obj {
	return obj{"call_id": id, "result": nil, "is_error": true, "error_message": message}
}

// drive answers every round with what tool says of each call, and returns the end and
// how many calls each round had.
func (r *rig) drive(key string, first answer, tool func(c asked) obj) (end said, rounds []int) {
	r.t.Helper()
	s := into[said](r.t, first, 200)
	session := ""
	for s.Status == "tool_call_required" {
		if len(s.ToolCalls) == 0 || s.ContinuationToken == "" || s.SessionID == "" || session != "" && session != s.SessionID {
			r.t.Fatalf("round %d: %+v", len(rounds), s)
		}
		session = s.SessionID
		rounds = append(rounds, len(s.ToolCalls))
		var results []obj
		for _, c := range s.ToolCalls {
			results = append(results, tool(c))
		}
		s = into[said](r.t, r.goOn(key, s.ContinuationToken, results...), 200)
	}
	if session != "" && s.SessionID != session {
		r.t.Errorf("the session was %s in its rounds and %s at the end", session, s.SessionID)
	}
	return s, rounds
}

func weather(c asked) obj { return ok(c.ID, obj{"temp": 65, "city": c.Input["city"], "tool": c.Name}) }

func TestProgramCallsATool(t *testing.T) {
	python(t)
	r := newRig(t)
	end, rounds := r.drive(rich, r.begin(rich, "", "print('a')\nw = await get_weather(city='SF')\nprint(w['temp'], w['city'])\nopen('out.txt','w').write('x')", []string{"get_weather"}), weather)
	if end.Status != "completed" || end.Stdout != "a\n65 SF\n" || end.Stderr != "" || !slices.Equal(rounds, []int{1}) || fileNames(end.Files) != "out.txt" {
		t.Errorf("Python: %+v in rounds %v", end, rounds)
	}
	end, rounds = r.drive(rich, r.begin(rich, "bash", ": &\nwait \"$!\"\nw=$(get_weather '{\"city\":\"SF\"}'); echo \"$w\"\necho x > out.txt", []string{"get_weather"}), weather)
	if end.Status != "completed" || end.Stdout != `{"city":"SF","temp":65,"tool":"get_weather"}`+"\n" || end.Stderr != "" || !slices.Equal(rounds, []int{1}) || fileNames(end.Files) != "out.txt" {
		t.Errorf("Bash: %+v in rounds %v", end, rounds)
	}
	if u := r.usage(); len(u) != 2 {
		t.Errorf("%d charges for two programs: %+v", len(u), u)
	}
	if b := r.balance("w-rich"); b.Held != 0 || b.Balance != 998 {
		t.Errorf("%+v", b)
	}
}

func TestProgramGathersCalls(t *testing.T) {
	python(t)
	r := newRig(t)
	// On a busy machine more than gatherCalls may pass between two calls of a program.
	r.programs = programmatic.New[outcome](programmatic.Options{
		Programs: 1, TenantPrograms: 1, Rounds: programRounds, Calls: programCalls, TTL: time.Minute,
		Gather: time.Second, GatherMost: time.Minute, Keep: keepReply, Remember: keepReply,
		Token: func() (string, error) { return newToken(r) },
	})
	end, rounds := r.drive(alice, r.begin(alice, "py", `
import asyncio
async def one(i):
    return (await get_weather(city=str(i)))["city"]
print(*await asyncio.gather(*(one(i) for i in range(10))))`, []string{"get_weather"}), weather)
	if end.Status != "completed" || end.Stdout != "0 1 2 3 4 5 6 7 8 9\n" || !slices.Equal(rounds, []int{10}) {
		t.Errorf("%+v in rounds %v", end, rounds)
	}
	end, rounds = r.drive(alice, r.begin(alice, "bash", `
for i in 1 2 3; do get_weather "{\"city\":\"$i\"}" > $i.json & done; wait
cat 1.json 2.json 3.json | grep -c temp`, []string{"get_weather"}), weather)
	if total := 0; end.Status != "completed" || end.Stdout != "3\n" {
		for _, n := range rounds {
			total += n
		}
		t.Errorf("%+v in rounds %v, %d calls", end, rounds, total)
	}
}

func TestProgramOfManyRounds(t *testing.T) {
	python(t)
	r := newRig(t)
	const n = 25
	end, rounds := r.drive(alice, r.begin(alice, "py", fmt.Sprintf("for i in range(%d):\n    r = await get_weather(city=str(i))\n    print(r['city'])", n), []string{"get_weather"}), weather)
	if end.Status != "completed" || strings.Count(end.Stdout, "\n") != n || len(rounds) != n {
		t.Errorf("%+v in rounds %v", end, rounds)
	}
	if u := r.usage(); len(u) != 1 {
		t.Errorf("%d charges", len(u))
	}
}

func TestProgramMeetsErrors(t *testing.T) {
	python(t)
	r := newRig(t)
	bad := func(c asked) obj { return failed(c.ID, "bad city: "+c.Input["city"].(string)) }
	for _, c := range []struct {
		name, lang, code    string
		status, out, stderr string
		failure             string
	}{
		{"caught", "py", "try:\n    await get_weather(city='x')\nexcept ToolExecutionError as e:\n    print('caught', e)", "completed", "caught bad city: x\n", "", ""},
		{"caught as another", "py", "try:\n    await get_weather(city='x')\nexcept RuntimeError as e:\n    print('caught', e)", "completed", "caught bad city: x\n", "", ""},
		{"uncaught", "py", "print(1)\nawait get_weather(city='x')", "error", "1\n", "ToolExecutionError: bad city: x", "Sandbox exited with code 1"},
		{"own exit code", "py", "import sys\nsys.exit(7)", "error", "", "", "Sandbox exited with code 7"},
		{"shell", "bash", "get_weather '{\"city\":\"x\"}' || echo failed $?", "completed", "failed 1\n", "bad city: x", ""},
		{"shell, last", "bash", "get_weather '{\"city\":\"x\"}'", "error", "", "bad city: x", "Sandbox exited with code 1"},
		{"shell, no JSON", "bash", "get_weather '{oops' || echo no", "completed", "no\n", "", ""},
		{"no such tool", "bash", "\"$CAISSON_CALL\" launch '{}' || echo no", "completed", "no\n", `"launch" is not one of`, ""},
		{"no object", "bash", "\"$CAISSON_CALL\" get_weather '[1]' || echo no", "completed", "no\n", "must be a JSON object", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, _ := r.drive(alice, r.begin(alice, c.lang, c.code, []string{"get_weather"}), bad)
			if end.Status != c.status || end.Stdout != c.out || !strings.Contains(end.Stderr, c.stderr) || end.Error != c.failure {
				t.Errorf("%+v", end)
			}
		})
	}
}

func TestProgramBudget(t *testing.T) {
	python(t)
	r := newRig(t)
	slow := func(c asked) obj {
		time.Sleep(1500 * time.Millisecond) // all three are longer than the budget
		return weather(c)
	}
	end, rounds := r.drive(alice, r.begin(alice, "py", "for i in range(3):\n    await get_weather(city='x')\nprint('done')", []string{"get_weather"}, obj{"timeout": 4000}), slow)
	if end.Status != "completed" || end.Stdout != "done\n" || len(rounds) != 3 {
		t.Errorf("a budget that ran while the program waited: %+v", end)
	}
	end, _ = r.drive(alice, r.begin(alice, "py", "print('a', flush=True)\nawait get_weather(city='x')\nwhile True: pass", []string{"get_weather"}, obj{"timeout": 4000}), weather)
	if end.Status != "error" || end.Error != "Time limit exceeded" || end.Stdout != "a\n" || !strings.Contains(end.Stderr, "Time limit exceeded") {
		t.Errorf("an endless loop: %+v", end)
	}
	if n := len(r.usage()); n != 2 {
		t.Errorf("%d charges", n)
	}
}
