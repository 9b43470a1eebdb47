package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// An operator sees and ends sessions of a running server, whose owner gets them back
// empty under their ids.
func TestSessionCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0")
	config := p.config(t, "sessions: {store: sqlite}\n")
	s := p.serve(t, "--config", config).ready(t)
	run := func(code, session string) answer {
		t.Helper()
		body, err := json.Marshal(map[string]string{"lang": "bash", "code": code, "session_id": session})
		if err != nil {
			t.Fatal(err)
		}
		return decode(t, s.must(t, http.MethodPost, "/v1/exec", testKey, string(body)).body)
	}
	first := run("echo 1 > f", "")
	list := p.run(t, "", p.flags("session", "list", "--json", "--config", config)...)
	if list.code != 0 || !strings.Contains(list.stdout, first.SessionID) {
		t.Fatalf("list: %+v, want %s", list, first.SessionID)
	}
	if r := p.run(t, "", p.flags("session", "sweep", "--config", config)...); r.code != 0 || !strings.Contains(r.stdout, "sessions of runs: 1, ended 0") {
		t.Errorf("sweep: %+v", r)
	}
	if r := p.run(t, "", p.flags("session", "end", first.SessionID, "--config", config)...); r.code != 0 {
		t.Errorf("end: %+v", r)
	}
	if r := p.run(t, "", p.flags("session", "show", first.SessionID, "--config", config)...); r.code == 0 {
		t.Errorf("show of an ended session: %+v", r)
	}
	if again := run("ls", first.SessionID); again.SessionID != first.SessionID || again.Stdout != "" {
		t.Errorf("the session came back as %+v", again)
	}
	s.stop(t)
	if r := p.run(t, "", p.flags("session", "list", "--config", config)...); r.code == 0 || !strings.Contains(r.stderr, "no server runs") {
		t.Errorf("list without a server: %+v", r)
	}
}
