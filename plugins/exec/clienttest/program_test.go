package clienttest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tooled is what a program that called tools came to.
type tooled struct {
	message
	// Calls are the tools that were called, Together how many of them at most at once.
	Calls    []string
	Together int
}

type tooledCall struct {
	client string
	bash   bool
	code   string
	// slow is how many milliseconds a tool takes, abortAfter when the caller gives up,
	// timeout what the program may take, 15000 if that is 0.
	slow, abortAfter, timeout int
	files                     []file
	session                   string // what the oldest client sends in the place of files
}

func (d *driver) program(t *testing.T, c tooledCall) (tooled, error) {
	t.Helper()
	request := obj{
		"client": c.client, "bash": c.bash, "args": obj{"code": c.code, "timeout": cmp.Or(c.timeout, 15000)},
		"tools": []string{"get_weather", "mcp-list.items", "broken"}, "extra": obj{},
	}
	if c.session != "" && c.client == oldest {
		request["args"].(obj)["session_id"] = c.session
	}
	if c.slow > 0 {
		request["slow"] = c.slow
	}
	if c.abortAfter > 0 {
		request["abortAfter"] = c.abortAfter
	}
	if len(c.files) > 0 {
		request["extra"] = obj{"_injected_files": c.files}
	}
	var m tooled
	err := d.call(t, "program", request, &m)
	return m, err
}

// programs calls tools from programs of the client, which executes the tools itself.
func programs(t *testing.T, d *driver, client string, bash bool) {
	run := func(t *testing.T, c tooledCall) tooled {
		t.Helper()
		c.client = client
		m, err := d.program(t, c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	t.Run("Python", func(t *testing.T) {
		m := run(t, tooledCall{code: `
a = await get_weather(city="SF")
b = await mcp_listitems(city="NY")
print(a["city"], a["tool"], b["tool"])
open("made.txt", "w").write("made")`})
		if !strings.HasPrefix(m.Content, "stdout:\nSF get_weather mcp-list.items") || strings.Contains(m.Content, "stderr") || !slices.Equal(m.Calls, []string{"get_weather", "mcp-list.items"}) {
			t.Errorf("%+v", m)
		}
		if body, _ := d.download(t, m.find(t, "made.txt")); string(body) != "made" {
			t.Errorf("downloaded %q", body)
		}
		next := run(t, tooledCall{code: `print(open("made.txt").read(), await get_weather(city="x"))`, files: m.Artifact.Files, session: m.Artifact.SessionID})
		if !strings.HasPrefix(next.Content, "stdout:\nmade {") {
			t.Errorf("%+v", next)
		}
	})
	// A round closes when no call came for a moment: a busy machine may need another try.
	together := func(t *testing.T, want int, c tooledCall) (m tooled) {
		t.Helper()
		for range 10 {
			if m = run(t, c); m.Together == want {
				return m
			}
		}
		t.Errorf("%d at once, want %d", m.Together, want)
		return m
	}
	t.Run("Python, in parallel", func(t *testing.T) {
		m := together(t, 10, tooledCall{code: `
import asyncio
r = await asyncio.gather(*(get_weather(city=str(i)) for i in range(10)))
print([x["city"] for x in r] == [str(i) for i in range(10)])`})
		if !strings.HasPrefix(m.Content, "stdout:\nTrue") {
			t.Errorf("%+v", m)
		}
	})
	t.Run("Python, 20 rounds", func(t *testing.T) {
		m := run(t, tooledCall{code: "for i in range(20):\n    r = await get_weather(city=str(i))\nprint(r['city'])"})
		if !strings.HasPrefix(m.Content, "stdout:\n19") || len(m.Calls) != 20 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("Python, a tool that fails", func(t *testing.T) {
		m := run(t, tooledCall{code: "try:\n    await broken(city='x')\nexcept Exception as e:\n    print('caught', e)"})
		if !strings.HasPrefix(m.Content, "stdout:\ncaught ") || !strings.Contains(m.Content, "nothing works") {
			t.Errorf("%+v", m)
		}
		_, err := d.program(t, tooledCall{client: client, code: "print(1)\nawait broken(city='x')"})
		if err == nil || !strings.Contains(err.Error(), "exited with code 1") || !strings.Contains(err.Error(), "nothing works") {
			t.Errorf("uncaught: %v", err)
		}
	})
	if !bash {
		return
	}
	t.Run("Bash", func(t *testing.T) {
		m := run(t, tooledCall{bash: true, code: `
w=$(get_weather '{"city":"SF"}'); echo "$w" | jq -r .city
mcp_list_items '{"city":"NY"}' | jq -r .tool
broken '{"city":"x"}' || echo failed $?
get_weather '{oops' || echo refused $?`})
		if !strings.HasPrefix(m.Content, "stdout:\nSF\nmcp-list.items\nfailed 1\nrefused 1\n") || !strings.Contains(m.Content, "nothing works") || !slices.Equal(m.Calls, []string{"get_weather", "mcp-list.items", "broken"}) {
			t.Errorf("%+v", m)
		}
	})
	t.Run("Bash, in parallel", func(t *testing.T) {
		m := together(t, 3, tooledCall{bash: true, slow: 100, code: `
for i in 1 2 3; do get_weather "{\"city\":\"$i\"}" > $i.json & done; wait
jq -r .city 1.json 2.json 3.json | tr '\n' ' '`})
		if !strings.HasPrefix(m.Content, "stdout:\n1 2 3") {
			t.Errorf("%+v", m)
		}
	})
	t.Run("abort", func(t *testing.T) {
		m := run(t, tooledCall{code: `open("session.txt", "w").close()`})
		const want = "stdout:\n['begun.txt', 'session.txt']"
		var next tooled
		for ms := 2000; ms <= 8000 && !strings.HasPrefix(next.Content, want); ms *= 2 { // a busy machine may need longer to begin
			_, err := d.program(t, tooledCall{client: client, code: `
import time
open("begun.txt", "w").close()
time.sleep(600)
await get_weather(city="x")
open("ended.txt", "w").close()`, files: m.Artifact.Files, abortAfter: ms, timeout: 300_000})
			if err == nil {
				t.Fatal("the aborted program has a result")
			}
			began := time.Now()
			next = run(t, tooledCall{code: "import os\nprint(sorted(os.listdir()))", files: m.Artifact.Files})
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it was waited for the aborted program: %v", took)
			}
		}
		if !strings.HasPrefix(next.Content, want) {
			t.Errorf("%+v", next)
		}
	})
}

// TestProgramsOfClients has every generation run programs that call its tools.
func TestProgramsOfClients(t *testing.T) {
	d := startDriver(t, startServer(t))
	t.Run("3.9.2", func(t *testing.T) { programs(t, d, current, true) })
	t.Run("3.2.57", func(t *testing.T) { programs(t, d, middle, false) })
	t.Run("3.0.50", func(t *testing.T) { programs(t, d, oldest, false) })
}

// TestProgramsWithoutTheCapability: backends that pass no calls on say so in the words
// that tell a model not to try again.
func TestProgramsWithoutTheCapability(t *testing.T) {
	d := startDriver(t, startServer(t, "--config", remoteConfig(t, "e2b")))
	_, err := d.program(t, tooledCall{client: current, code: "await get_weather(city='x')"})
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "do not retry") {
		t.Errorf("%v", err)
	}
}
