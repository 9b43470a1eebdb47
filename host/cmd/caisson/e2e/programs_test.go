package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// told is what a request about a program that calls tools was answered with.
type told struct {
	answer
	Status, Error string
	Token         string `json:"continuation_token"`
	Calls         []struct {
		ID, Name string
		Input    map[string]any
	} `json:"tool_calls"`
}

const programmatic = "/v1/exec/programmatic"

// program sends a body to a server.
func (s *server) program(t *testing.T, body any, header ...string) (int, told) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+programmatic, strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", s.key)
	if len(header) == 2 {
		req.Header.Set(header[0], header[1])
	}
	r, err := s.do(req)
	if err != nil {
		t.Fatal(err)
	}
	var a told
	if err := json.Unmarshal([]byte(r.body), &a); r.status == http.StatusOK && err != nil {
		t.Fatalf("%v in %q", err, r.body)
	}
	return r.status, a
}

func tooled(lang, code string) map[string]any {
	return map[string]any{"lang": lang, "code": code, "timeout": 20_000, "tools": []any{
		map[string]any{"name": "get", "parameters": map[string]any{"properties": map[string]any{"key": map[string]any{"type": "string"}}, "required": []string{"key"}}},
	}}
}

func (a told) answered(value func(key string) any) map[string]any {
	var results []any
	for _, c := range a.Calls {
		results = append(results, map[string]any{"call_id": c.ID, "result": value(fmt.Sprint(c.Input["key"]))})
	}
	return map[string]any{"continuation_token": a.Token, "tool_results": results}
}

// drive answers every call with its key, and returns the end and the calls of each round.
func (s *server) drive(t *testing.T, body map[string]any) (end told, rounds []int) {
	t.Helper()
	for {
		status, a := s.program(t, body)
		if status != http.StatusOK {
			t.Fatalf("status %d in round %d", status, len(rounds))
		}
		if a.Status != "tool_call_required" {
			return a, rounds
		}
		rounds = append(rounds, len(a.Calls))
		body = a.answered(func(key string) any { return map[string]any{"key": key} })
	}
}

// together drives a program until its calls come in rounds of so many. A round closes when
// no call came for a moment, so that a busy machine may need another try.
func together(t *testing.T, drive func() (told, []int), want ...int) (end told) {
	t.Helper()
	var rounds []int
	for range 10 {
		if end, rounds = drive(); slices.Equal(rounds, want) {
			return end
		}
	}
	t.Errorf("rounds %v, want %v", rounds, want)
	return end
}

// gathered are the rounds of ten calls at once and twenty after each other.
var gathered = append([]int{10}, slices.Repeat([]int{1}, 20)...)

// The same programs in containers, where a program that waits is parked at its socket.
func TestProgramsThatCallToolsInContainers(t *testing.T) {
	t.Parallel()
	image := os.Getenv("CAISSON_TEST_DOCKER_IMAGE")
	if os.Getenv("CAISSON_TEST_DOCKER_HOST") == "" || image == "" {
		const why = `SKIP: CAISSON_TEST_DOCKER_HOST and CAISSON_TEST_DOCKER_IMAGE name no engine; see "tools/engine.sh env"`
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0")
	s := &dockerServer{}
	removeContainers(t, p, &s.sessions)
	s.server = p.serve(t, "--config", p.config(t, dockerConfig(image))).ready(t)
	end := together(t, func() (told, []int) {
		end, rounds := s.drive(t, tooled("py", `
import asyncio
print(*[x["key"] for x in await asyncio.gather(*(get(key=str(i)) for i in range(10)))])
for i in range(20):
    r = await get(key=str(i))
print(r["key"])`))
		s.sessions = append(s.sessions, end.SessionID)
		return end, rounds
	}, gathered...)
	if end.Status != "completed" || end.Stdout != "0 1 2 3 4 5 6 7 8 9\n19\n" {
		t.Errorf("Python: %+v", end)
	}
	body := tooled("bash", `
for i in 1 2 3; do get "{\"key\":\"$i\"}" > $i.json & done; wait
cat 1.json 2.json 3.json | jq -r .key | tr '\n' ' '`)
	body["session_id"] = end.SessionID
	next, _ := s.drive(t, body)
	if next.Status != "completed" || next.Stdout != "1 2 3 " || next.SessionID != end.SessionID {
		t.Errorf("Bash: %+v", next)
	}
	s.stop(t)
}

// Programs call tools in the embedded backend, where a program that waits is parked in a
// call of its host.
func TestProgramsThatCallTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	config := p.config(t, "admission: {service_key_wallet: acme}\nprograms: {live: 3, tenant_live: 3, ttl: 1m}\nqueue: {running: 1, tenant_running: 1}\n")
	p.ledger(t, "credit", "acme", "100")
	s := p.serve(t, "--config", config).ready(t)

	end := together(t, func() (told, []int) {
		return s.drive(t, tooled("py", `
import asyncio
print(*[x["key"] for x in await asyncio.gather(*(get(key=str(i)) for i in range(10)))])
for i in range(20):
    r = await get(key=str(i))
open("made.txt", "w").write(r["key"])
print(r["key"])`))
	}, gathered...)
	if end.Status != "completed" || end.Stdout != "0 1 2 3 4 5 6 7 8 9\n19\n" || end.Stderr != "" || len(end.Files) != 1 {
		t.Errorf("Python: %+v", end)
	}
	end = together(t, func() (told, []int) {
		return s.drive(t, tooled("bash", `
a=$(get '{"key":"x"}'); echo "$a"
for i in 1 2 3; do get "{\"key\":\"$i\"}" > $i.json & done; wait
cat 1.json 2.json 3.json | jq -r .key | tr '\n' ' '`))
	}, 1, 3)
	if end.Status != "completed" || end.Stdout != `{"key":"x"}`+"\n1 2 3 " {
		t.Errorf("Bash: %+v", end)
	}
	end, _ = s.drive(t, tooled("py", "import asyncio\nasync def main():\n    return await get(key='x')\nprint(asyncio.run(main()))"))
	if end.Status != "completed" || end.Stdout != "{'key': 'x'}\n" {
		t.Errorf("asyncio.run: %+v", end)
	}
	end, _ = s.drive(t, tooled("py", "await get(key='x')\n1/0"))
	if end.Status != "error" || end.Error != "Sandbox exited with code 1" || !strings.Contains(end.Stderr, "ZeroDivisionError") || strings.Contains(end.Stderr, "<tools>") {
		t.Errorf("a program that fails: %+v", end)
	}

	// Three are suspended, which takes no place to run; a fourth is one too many.
	var waiting []told
	for i := range 3 {
		_, a := s.program(t, tooled("py", "await get(key='x')\nimport time; time.sleep(600)"), "X-LibreChat-Code-Request-ID", fmt.Sprint("r", i))
		if a.Status != "tool_call_required" {
			t.Fatalf("%+v", a)
		}
		waiting = append(waiting, a)
	}
	if status, _ := s.program(t, tooled("py", "1")); status != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", status)
	}
	if a := s.python(t, "print('beside')"); a.Stdout != "beside\n" {
		t.Errorf("%+v", a)
	}
	wantStatus(t, "cancel", s.must(t, "POST", programmatic+"/cancel", s.key, `{"request_id":"r0"}`), http.StatusAccepted, "")
	if status, _ := s.program(t, waiting[0].answered(func(string) any { return 1 })); status != http.StatusNotFound {
		t.Errorf("a canceled program: %d", status)
	}
	s.eventually(t, "its place is free", func() bool {
		status, a := s.program(t, tooled("py", "print(1)"))
		return status == http.StatusOK && a.Stdout == "1\n"
	})
	// Whoever starts a stretch and hangs up ends it.
	ctx := s.client.Timeout
	s.client.Timeout = time.Second
	body, _ := json.Marshal(waiting[1].answered(func(string) any { return 1 }))
	if _, err := s.request(t.Context(), http.MethodPost, programmatic, s.key, string(body)); err == nil {
		t.Error("an answer from a program that sleeps")
	}
	s.client.Timeout = ctx
	s.eventually(t, "the place to run is free", func() bool {
		r, err := s.request(t.Context(), http.MethodPost, "/v1/exec", s.key, program("print(2)"))
		return err == nil && r.status == http.StatusOK
	})
	// One is suspended still when the server is told to stop: it ends at once, and nothing
	// is left.
	began := time.Now()
	s.stop(t)
	if d := time.Since(began); d > time.Minute {
		t.Errorf("stopping took %v", d)
	}
	s = p.serve(t, "--config", config).ready(t)
	if status, _ := s.program(t, waiting[2].answered(func(string) any { return 1 })); status != http.StatusNotFound {
		t.Errorf("a program of the server before: %d", status)
	}
	// Killed with a program suspended: its plugin does not outlive it.
	if _, a := s.program(t, tooled("py", "await get(key='x')")); a.Status != "tool_call_required" {
		t.Errorf("%+v", a)
	}
	s.signal(t, syscall.SIGKILL)
	<-s.exited
	waitFor(t, "every process of the killed server is gone", func() bool { return len(p.processes()) == 0 })
	clearDir(t, p.tmp)
	s = p.serve(t, "--config", config).ready(t)
	// Four programs that ended, three that were stopped, one that the crash ended, and the
	// runs beside: each paid for once, and nothing is held.
	out := p.ledger(t, "balance", "acme")
	if !strings.Contains(out, "held 0") {
		t.Errorf("%s", out)
	}
	usage := p.ledger(t, "usage", "--json")
	if n := strings.Count(usage, `"run_id"`); n == 0 || !strings.HasPrefix(out, fmt.Sprintf("acme: balance %d cents", 100-n)) {
		t.Errorf("%s after %d acts", out, n)
	}
	s.stop(t)
}
