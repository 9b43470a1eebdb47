package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What `make run` does: a key is made, and one line can be pasted.
func TestDevelopment(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0")
	s := p.serve(t, "--dev").ready(t)
	var line string
	s.eventually(t, "a curl line is printed", func() bool {
		for l := range strings.Lines(s.stdout.String()) {
			if strings.HasPrefix(strings.TrimSpace(l), "curl ") {
				line = strings.TrimSpace(l)
			}
		}
		return line != ""
	})
	if !strings.Contains(s.stdout.String(), s.url+"/v1/exec") {
		t.Errorf("the address is not printed: %s", s.stdout.String())
	}
	m := regexp.MustCompile(`X-API-Key: (\S+?)'`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no key in %q", line)
	}
	s.key = m[1]
	if a := s.python(t, "print(6 * 7)"); a.Stdout != "42\n" {
		t.Errorf("with the printed key: %+v", a)
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = []string{"PATH=" + filepath.Dir(curl)}
		if out, err := cmd.CombinedOutput(); err != nil || decode(t, string(out)).Stdout != "42\n" {
			t.Errorf("the printed line: %v, %s", err, out)
		}
	}
	st, err := os.Stat(filepath.Join(p.data, "dev-key"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("dev-key: %v, %v", st, err)
	}
	s.stop(t)

	// The key stays, and one of the operator's is not printed.
	s = p.serve(t, "--dev").ready(t)
	s.eventually(t, "the same key is printed", func() bool { return strings.Contains(s.stdout.String(), m[1]) })
	s.stop(t)
	p.env = append(p.env, "CODE_EXEC_API_KEY="+testKey)
	s = p.serve(t, "--dev").ready(t)
	s.eventually(t, "the address is printed", func() bool { return strings.Contains(s.stdout.String(), s.url) })
	if out := s.stdout.String(); strings.Contains(out, testKey) || strings.Contains(out, m[1]) {
		t.Errorf("a key is printed beside the operator's: %s", out)
	}
	s.stop(t)
}

func TestServe(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)

	if a := s.python(t, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"); a.Stdout != "out\n" || !strings.Contains(a.Stderr, "err") || a.Code == nil || *a.Code != 3 {
		t.Errorf("a failing program: %+v", a)
	}
	wantStatus(t, "no key", s.must(t, "POST", "/v1/exec", "", program("1")), 401, `"`)
	wantStatus(t, "wrong key", s.must(t, "POST", "/v1/exec", "wrong", program("1")), 401, `"`)
	wantStatus(t, "unknown path", s.must(t, "GET", "/no/such/path", s.key, ""), 404, "not_found")
	wantStatus(t, "unknown method", s.must(t, "BREW", "/v1/exec", s.key, ""), 501, "not_implemented")
	wantStatus(t, "unknown method and path", s.must(t, "BREW", "/no/such/path", s.key, ""), 404, "not_found")
	wantStatus(t, "wrong method", s.must(t, "PATCH", "/v1/exec", s.key, ""), 405, "")
	wantStatus(t, "unknown language", s.must(t, "POST", "/v1/exec", s.key, `{"lang":"cobol","code":"x"}`), 400, "py")
	if strings.Contains(s.stderr.String(), testKey) {
		t.Error("the service key is in the log")
	}

	// The data directory belongs to this process.
	r := p.run(t, "", p.flags("serve", "--addr", "127.0.0.1:0")...)
	if r.code != 1 || !strings.Contains(r.stderr, "in use by process "+strconv.Itoa(s.cmd.Process.Pid)) {
		t.Errorf("a second process: exit %d, %s", r.code, r.stderr)
	}
	// And so does the address.
	other := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	r = other.run(t, "", other.flags("serve", "--addr", strings.TrimPrefix(s.url, "http://"))...)
	if r.code != 1 || !strings.Contains(r.stderr, "another program listens there") {
		t.Errorf("an address in use: exit %d, %s", r.code, r.stderr)
	}
	other.mustBeClean(t)
	s.stop(t)
}

// Without credentials nobody is let in, and the operator is told.
func TestServeWithoutKey(t *testing.T) {
	t.Parallel()
	s := newPlace(t).serve(t)
	s.eventually(t, "health says what is missing", func() bool {
		r, err := s.request(t.Context(), http.MethodGet, "/v1/exec/health", "", "")
		return err == nil && r.status == http.StatusServiceUnavailable && strings.Contains(r.body, "not_configured")
	})
	wantStatus(t, "no key configured", s.must(t, "POST", "/v1/exec", "any", program("1")), 503, `"`)
	s.logs(t, "CODE_EXEC_API_KEY")
	s.stop(t)
}

// sleeping starts a run that takes long and returns once the program runs.
func (s *server) sleeping(t *testing.T, seconds int) <-chan result2 {
	t.Helper()
	out := make(chan result2, 1)
	code := "import time\nprint('begun', flush=True)\ntime.sleep(" + strconv.Itoa(seconds) + ")\nprint('ended')"
	go func() {
		r, err := s.request(context.WithoutCancel(t.Context()), http.MethodPost, "/v1/exec", s.key, program(code))
		out <- result2{r, err}
	}()
	s.eventually(t, "the program has started", func() bool { return s.started(t) > 0 })
	return out
}

type result2 struct {
	reply
	err error
}

// A run in flight ends by itself and is answered, though nothing new is let in.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "CODE_EXEC_API_KEY="+testKey).serve(t).ready(t)
	run := s.sleeping(t, 2)
	s.signal(t, syscall.SIGTERM)
	s.logs(t, "stopping")
	r := <-run
	if r.err != nil || r.status != 200 || decode(t, r.body).Stdout != "begun\nended\n" {
		t.Errorf("the run in flight: %+v", r)
	}
	s.wait(t, 0)
}

// A second signal does not wait for runs, but still leaves nothing behind.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "CODE_EXEC_API_KEY="+testKey).serve(t).ready(t)
	run := s.sleeping(t, 25)
	s.signal(t, syscall.SIGTERM)
	s.logs(t, "stopping")
	s.signal(t, syscall.SIGTERM)
	if r := <-run; r.err == nil && strings.Contains(r.body, "ended") {
		t.Errorf("the run was waited for: %s", r.body)
	}
	s.wait(t, 0)
	// What had started is paid for all the same.
	if out := s.ledger(t, "usage"); strings.Count(out, "\n") != 2 {
		t.Errorf("usage = %q, want one record", out)
	}
}
