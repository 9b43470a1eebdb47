package e2e

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/internal/enginetest"
)

// TestDockerSessions: what a session in a container holds outlives the server, however
// that ends, and what waited for the next session does not.
func TestDockerSessions(t *testing.T) {
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
	config := p.config(t, dockerConfig(image))
	serve := func(sessions ...string) *dockerServer {
		return &dockerServer{server: p.serve(t, "--config", config).ready(t), sessions: sessions}
	}
	var sessions []string
	removeContainers(t, p, &sessions)
	s := serve()
	session := s.execute(t, "", "py", "open('kept.txt', 'w').write('kept')").SessionID
	sessions = append(sessions, session)
	again := func(s *dockerServer, how string) {
		t.Helper()
		a := s.execute(t, session, "py", "print(open('kept.txt').read())")
		if a.Stdout != "kept\n" || a.SessionID != session {
			t.Errorf("%s: session %s, not %s, printed %q and %q", how, a.SessionID, session, a.Stdout, a.Stderr)
		}
	}
	again(s, "in the same server")
	s.stop(t)
	// One may be in the making when the time of the plugin to end is over, on a loaded
	// machine: the next server removes it, which is looked at below.
	if n := waitingContainers(t, p); n > 1 {
		t.Errorf("%d containers wait for a session of a server that has ended", n)
	}
	s = serve(session)
	again(s, "after a restart")
	s.signal(t, syscall.SIGKILL)
	<-s.exited
	s = serve(session)
	again(s, "after the server was killed")
	if r := s.must(t, http.MethodPost, "/v1/exec", s.key, `{"lang":"java","code":"class A {}"}`); image == "caisson/minimal:test" && r.status != http.StatusBadRequest {
		t.Errorf("a language that the image has not: %d %s", r.status, r.body)
	}
	s.eventually(t, "what the killed server left is gone", func() bool { return waitingContainers(t, p) <= 2 })
	s.stop(t)
}

// waitingContainers counts the containers of a place's servers that are no session's.
func waitingContainers(t *testing.T, p place) (n int) {
	t.Helper()
	names, err := enginetest.Containers(os.Getenv("CAISSON_TEST_DOCKER_HOST"), p.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "caisson-new_") {
			n++
		}
	}
	return n
}
