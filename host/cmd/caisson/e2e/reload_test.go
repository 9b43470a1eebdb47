package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/internal/porttest"
)

// A configuration that changes while requests come: by command, by SIGHUP, and
// through the address for operators.
func TestReload(t *testing.T) {
	t.Parallel()
	admin := porttest.Free(t)
	const credential = "an operator's credential"
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey, "ADMIN_CREDENTIAL="+credential)
	base := "admin:\n  listen: " + admin + "\n  credential: {env: ADMIN_CREDENTIAL}\n"
	file := p.config(t, base)
	write := func(text string) {
		if err := os.WriteFile(file, []byte(base+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := p.serve(t, "--config", file).ready(t)
	kept := s.python(t, "open('kept.txt','w').write('here')")

	reload := append(p.flags("reload"), "--config", file)
	write("default_backend: second\nbackends: [{id: wasm, plugin: wasm}, {id: second, plugin: wasm}]\nlimits: {stdout: 4}\n")
	if r := p.run(t, "", reload...); r.code != 0 || r.stdout != "default backend: second\nlimits: changed\nsandbox config second: new, on wasm\n" {
		t.Errorf("reload: %+v", r)
	}
	if a := s.python(t, "print('123456')"); !strings.HasPrefix(a.Stdout, "1234") || strings.Contains(a.Stdout, "5") {
		t.Errorf("the new limit is not in force: %+v", a)
	}
	body, err := json.Marshal(map[string]string{"lang": "py", "code": "print(open('kept.txt').read())", "session_id": kept.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.must(t, http.MethodPost, "/v1/exec", s.key, string(body)); r.status != http.StatusOK || decode(t, r.body).Stdout != "here" {
		t.Errorf("the session of the backend that was the default: %+v", r)
	}
	// What is wrong changes nothing, and says where.
	write("default_backend: absent\n")
	if r := p.run(t, "", reload...); r.code != 1 || !strings.Contains(r.stderr, "default_backend") {
		t.Errorf("reload of a bad file: %+v", r)
	}
	// Nor does what would lose sandboxes: the last run left one with second.
	write("drain: 7s\n")
	if r := p.run(t, "", reload...); r.code != 1 || !strings.Contains(r.stderr, `config "second": the provider has 1 live sandboxes`) {
		t.Errorf("reload of a file without second: %+v", r)
	}
	write("drain: 7s\ndefault_backend: wasm\nbackends: [{id: wasm, plugin: wasm}, {id: second, plugin: wasm}]\n")
	s.signal(t, syscall.SIGHUP)
	s.logs(t, "drain: takes effect after a restart")
	if a := s.python(t, "print('123456')"); a.Stdout != "123456\n" {
		t.Errorf("the old limit is still in force: %+v", a)
	}

	ask := func(token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/plugins", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		r, err := s.do(req)
		if err != nil {
			t.Fatal(err)
		}
		return r.status
	}
	for token, want := range map[string]int{"": 401, testKey: 401, credential: 200} {
		if got := ask(token); got != want {
			t.Errorf("the address for operators answers %d to %q, want %d", got, token, want)
		}
	}
	s.stop(t)
}
