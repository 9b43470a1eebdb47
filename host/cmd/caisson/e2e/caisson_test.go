package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/porttest"
)

// patience bounds every wait of these tests; no test depends on its length. It
// covers the compilation of the interpreters under the race detector.
const patience = 4 * time.Minute

// place is a machine of one's own as far as caisson can tell: a data directory
// and a directory for temporary files that must be empty in the end.
type place struct {
	data, tmp string
	env       []string
	dir       string // where commands are started, the test's own by default
}

// newPlace sets env, NAME=value, beside what the program needs.
func newPlace(t testing.TB, env ...string) place {
	t.Helper()
	need(t)
	// Not t.TempDir, whose names hold those of tests: paths of sockets are short.
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := place{data: filepath.Join(dir, "data"), tmp: filepath.Join(dir, "tmp")}
	if err := errors.Join(os.Mkdir(p.data, 0o700), os.Mkdir(p.tmp, 0o700), os.Symlink(cache, filepath.Join(p.data, "cache"))); err != nil {
		t.Fatal(err)
	}
	p.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + p.tmp}, env...)
	t.Cleanup(func() { p.mustBeClean(t) })
	return p
}

// mustBeClean fails the test for every temporary file and every process left.
func (p place) mustBeClean(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(p.tmp)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("left in the temporary directory: %s", e.Name())
	}
	for _, pid := range p.processes() {
		t.Errorf("left running: process %d", pid)
	}
}

// processes are those that carry this place's temporary or data directory in
// their environment: caisson itself and its plugins.
func (p place) processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && (bytes.Contains(env, []byte(p.data)) || bytes.Contains(env, []byte(p.tmp))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (p place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Dir = p.env, p.dir
	return cmd
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command to its end, with the flags that every one takes added
// before the arguments of FILE.
func (p place) run(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// flags are what makes a command work in this place.
func (p place) flags(command ...string) []string {
	return append(command, "--data", p.data, "--plugins", plugins)
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// server is a running `caisson serve`.
type server struct {
	place
	cmd            *exec.Cmd
	url            string
	key            string
	stdout, stderr buffer
	client         *http.Client
	exited         chan struct{} // closed when cmd has been waited for
}

// testKey is the service key of servers that are not in development.
const testKey = "a-key-of-the-test"

// serve starts a server and waits until it listens, not until it is ready.
func (p place) serve(t testing.TB, args ...string) *server {
	t.Helper()
	addr := porttest.Free(t)
	s := &server{place: p, url: "http://" + addr, key: testKey, exited: make(chan struct{})}
	s.client = &http.Client{Transport: &http.Transport{}}
	if !slices.Contains(args, "--plugins") {
		args = append(args, "--plugins", plugins)
	}
	s.cmd = p.command(context.Background(), append([]string{"serve", "--addr", addr, "--data", p.data, "--log-level", "debug"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		_ = s.cmd.Process.Kill()
		<-s.exited
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.stderr.String())
		}
	})
	return s
}

// ready waits until a run would succeed.
func (s *server) ready(t testing.TB) *server {
	t.Helper()
	s.eventually(t, "health is 200", func() bool {
		r, err := s.request(t.Context(), http.MethodGet, "/v1/exec/health", "", "")
		return err == nil && r.status == http.StatusOK
	})
	return s
}

// logs waits until the server's log holds text: its lines come through a pipe, and may be
// read later than an answer that was given after them.
func (s *server) logs(t testing.TB, text string) {
	t.Helper()
	s.eventually(t, fmt.Sprintf("the log says %q", text), func() bool { return strings.Contains(s.stderr.String(), text) })
}

// eventually polls until ok or until the server ends.
func (s *server) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(s.exited, ok) {
		how := "in time"
		select {
		case <-s.exited:
			how = fmt.Sprintf("before the server ended with %v", s.cmd.ProcessState)
		default:
		}
		t.Fatalf("not %s: %s\n%s", how, what, s.stderr.String())
	}
}

// poll waits until ok, and reports whether it was before ended was closed and within
// patience.
func poll(ended <-chan struct{}, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ended:
			return false
		case <-end.C:
			return false
		}
	}
	return true
}

type reply struct {
	status int
	header http.Header
	body   string
}

// request sends body as JSON with key in X-API-Key; an empty key sends none.
func (s *server) request(ctx context.Context, method, path, key, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	return s.do(req)
}

func (s *server) do(req *http.Request) (reply, error) {
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b)}, err
}

// must is request, with a failure of the connection failing the test.
func (s *server) must(t testing.TB, method, path, key, body string) reply {
	t.Helper()
	r, err := s.request(t.Context(), method, path, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answer is what these tests read of a run's reply.
type answer struct {
	SessionID string `json:"session_id"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Code      *int   `json:"code"`
	Files     []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"files"`
}

// program is the body of a request that runs Python.
func program(code string) string {
	b, err := json.Marshal(map[string]string{"lang": "py", "code": code})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// python runs a program and wants 200.
func (s *server) python(t testing.TB, code string) answer {
	t.Helper()
	r := s.must(t, http.MethodPost, "/v1/exec", s.key, program(code))
	if r.status != http.StatusOK {
		t.Fatalf("run: %d %s", r.status, r.body)
	}
	return decode(t, r.body)
}

func decode(t testing.TB, body string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return a
}

// signal sends a signal.
func (s *server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// stop sends SIGTERM and wants a clean end.
func (s *server) stop(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	s.wait(t, 0)
	s.mustBeClean(t)
}

// wait waits for the end and wants an exit code.
func (s *server) wait(t testing.TB, code int) {
	t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatalf("the server does not end\n%s", s.stderr.String())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("the server ended with %v, want exit code %d", s.cmd.ProcessState, code)
	}
}

// config writes a configuration file into the place and returns its path.
func (p place) config(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(p.data), "caisson.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ledger runs `caisson ledger` and wants success.
func (p place) ledger(t testing.TB, args ...string) string {
	t.Helper()
	r := p.run(t, "", p.flags(append([]string{"ledger"}, args...)...)...)
	if r.code != 0 {
		t.Fatalf("ledger %v: exit %d: %s", args, r.code, r.stderr)
	}
	return r.stdout
}

func wantStatus(t testing.TB, what string, r reply, status int, contains string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.body, contains) {
		t.Errorf("%s: %d %q, want %d with %q", what, r.status, r.body, status, contains)
	}
	if status >= 400 && !json.Valid([]byte(r.body)) {
		t.Errorf("%s: the error is not JSON: %q", what, r.body)
	}
}
