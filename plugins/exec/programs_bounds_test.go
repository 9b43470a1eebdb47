package exec

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestSuspendedProgramsTakeNoSlot(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Running, o.TenantRunning, o.Waiting, o.MaxWait, o.KeepAlive = 1, 1, 4, 300*time.Millisecond, 20*time.Millisecond
	})
	s := r.suspended(alice, `one '{"city":"a"}'`, "one")
	if res := r.exec(alice, "echo beside"); res.Stdout != "beside\n" {
		t.Errorf("%+v", res)
	}
	// There is no room to go on with for a while.
	release := make(chan struct{})
	busy := make(chan struct{})
	r.shells.onRun = func(ctx context.Context, _ backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		close(busy)
		<-release
		_ = rio.Started()
		return backend.RunResult{Stop: backend.StopExit}, nil, true
	}
	done := make(chan struct{})
	go func() { defer close(done); r.exec(bob, "x") }()
	<-busy
	r.shells.onRun = nil
	a := r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1))
	if e := into[obj](t, a, 429); a.header.Get("Retry-After") == "" || e["error"] != "rate_limited" {
		t.Errorf("%v", e)
	}
	r.alive(1, 1)
	close(release)
	<-done
	if end := into[said](t, r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 200); end.Stdout != "1\n" {
		t.Errorf("%+v", end)
	}
}

func TestProgramsAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Programs, o.TenantPrograms = 3, 2 })
	code := `one '{"city":"a"}'`
	one := r.suspended(alice, code, "one")
	r.suspended(bob, code, "one")
	a := r.begin(alice, "bash", code, []string{"one"})
	if e := into[obj](t, a, 429); a.header.Get("Retry-After") == "" || e["error"] != "rate_limited" || e["retry_after_seconds"] == nil {
		t.Errorf("the tenant's third: %v", e)
	}
	r.suspended(mallory, code, "one")
	into[obj](t, r.begin(service, "bash", code, []string{"one"}), 429)
	if end := into[said](t, r.goOn(alice, one.ContinuationToken, ok(one.ToolCalls[0].ID, 1)), 200); end.Status != "completed" {
		t.Errorf("%+v", end)
	}
	r.suspended(alice, code, "one")
}

func TestProgramsEndWithTheEntry(t *testing.T) {
	r := newRig(t)
	s := r.suspended(rich, `one '{"city":"a"}'; echo alive`, "one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	if err := r.close(ctx); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
	if all, _ := r.programs.Live(); all != 0 {
		t.Errorf("%d programs live", all)
	}
	if a := r.goOn(rich, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)); a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if b := r.balance("w-rich"); b.Held != 0 || b.Balance != 999 {
		t.Errorf("%+v", b)
	}
}

// Once nobody can come back, programs that wait end, and those that would wait; others go on.
func TestDrain(t *testing.T) {
	r := newRig(t)
	gate := t.TempDir() + "/go"
	wait := "while [ ! -e " + gate + " ]; do sleep 0.01; done; "
	waiting := r.suspended(alice, `one '{}'`, "one")
	got := make(chan answer, 3)
	for _, code := range []string{wait + `one '{}'`, wait + "echo end"} {
		go func() {
			got <- r.post(alice, "/exec/programmatic", obj{"lang": "bash", "code": code, "tools": []obj{{"name": "one"}}})
		}()
		waitFor(t, func() bool { return r.queue.Stats().Running > 0 })
	}
	go func() { got <- r.post(alice, "/exec", obj{"lang": "bash", "code": wait + "echo end"}) }()
	waitFor(t, func() bool { return r.queue.Stats().Running == 3 })
	r.Drain()
	if a := r.goOn(alice, waiting.ContinuationToken, ok(waiting.ToolCalls[0].ID, 1)); a.status != 404 {
		t.Errorf("a continuation: %d %s", a.status, a.body)
	}
	touch(t, gate)
	ended := 0
	for range 3 {
		switch a := <-got; {
		case a.status == 503 && into[obj](t, a, 503)["code"] == "stopping":
		case a.status == 200 && strings.Contains(string(a.body), `"stdout":"end\n"`):
			ended++
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if ended != 2 {
		t.Errorf("%d came to their ends, want the run and the program that asks for nothing", ended)
	}
	r.alive(0, 0)
}

// A program that asks while the entry closes is told to nobody as one that waits.
func TestNoRoundWhileStopping(t *testing.T) {
	r := newRig(t, func(o *Options) { o.KeepAlive = time.Hour }) // so that the status is there to see
	gate := t.TempDir() + "/go"
	s := r.suspended(alice, `one '{"city":"a"}'; while [ ! -e `+gate+` ]; do sleep 0.01; done; one '{"city":"b"}'`, "one")
	got := make(chan answer, 1)
	go func() { got <- r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)) }()
	waitFor(t, func() bool { return r.queue.Stats().Running == 1 })
	closed := make(chan error, 1)
	go func() { closed <- r.close(t.Context()) }()
	waitFor(t, r.queue.Closed)
	touch(t, gate)
	if e := into[obj](t, <-got, 503); e["code"] != "stopping" {
		t.Errorf("%v", e)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	r.alive(0, 0)
}

func TestSandboxesThatPassNoCalls(t *testing.T) {
	r := newRig(t)
	whole := shellsInfo
	t.Cleanup(func() { shellsInfo = whole })
	shellsInfo.Capabilities = []backend.Capability{backend.CapNames}
	e := into[obj](t, r.begin(rich, "bash", `one '{}'`, []string{"one"}), 501)
	if e["code"] != "unsupported_capability" {
		t.Errorf("%v", e)
	}
	if s := into[said](t, r.begin(rich, "bash", `echo without`, nil), 200); s.Stdout != "without\n" {
		t.Errorf("a program without tools: %+v", s)
	}
	if b := r.balance("w-rich"); b.Held != 0 || b.Balance != 999 || r.shells.created.Load() != 1 {
		t.Errorf("%+v", b)
	}
}

func TestProgramsOfAnotherNode(t *testing.T) {
	owner, other := twoNodes(t)
	id := owner.exec(alice, "true").SessionID
	code := `one '{"city":"a"}'`
	s := into[said](t, other.begin(alice, "bash", code, []string{"one"}, obj{"session_id": id}), 200)
	if s.SessionID != id {
		t.Fatalf("%+v", s)
	}
	owner.alive(1, 1)
	if all, _ := other.programs.Live(); all != 0 {
		t.Errorf("%d programs live on the other node", all)
	}
	large := strings.Repeat("x", 2<<20) // more than is kept of a body
	if end := into[said](t, other.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, large)), 200); end.Status != "completed" || len(end.Stdout) < 1<<20 {
		t.Errorf("%s, %d bytes", end.Status, len(end.Stdout))
	}
	into[obj](t, other.goOn(mallory, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 404)

	// A cancellation finds its program wherever it is.
	q := other.request("POST", alice, programPath, jsonBody(obj{"lang": "bash", "code": code, "tools": defs("one"), "session_id": id}))
	q.Header.Set("X-LibreChat-Code-Request-ID", "far")
	s = into[said](t, other.do(q), 200)
	into[obj](t, other.post(alice, programPath+"/cancel", obj{"request_id": "far"}), 202)
	owner.alive(0, 0)
	into[obj](t, other.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 404)

	// On a node that is down, or that nobody knows.
	s = into[said](t, other.begin(alice, "bash", code, []string{"one"}, obj{"session_id": id}), 200)
	foreign, err := owner.keys.NewSession(owner.keys.Route("", "z"))
	if err != nil {
		t.Fatal(err)
	}
	if a := other.goOn(alice, foreign+s.ContinuationToken[21:], ok("call_001", 1)); a.status != http.StatusNotFound {
		t.Errorf("a node that nobody knows: %d %s", a.status, a.body)
	}
	owner.server.CloseClientConnections()
	owner.server.Close()
	if a := other.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)); a.status != http.StatusServiceUnavailable {
		t.Errorf("a node that is down: %d %s", a.status, a.body)
	}
}

// What a program at a provider computes is computed there: it goes on although its
// tenant has its share of this machine.
func TestProgramsElsewhereGoOn(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Running, o.TenantRunning, o.TenantShare, o.MaxWait = 8, 4, 1, 300*time.Millisecond
	})
	r.exec(mallory, "true") // another tenant is about
	here := shellsInfo.Capabilities
	defer func() { shellsInfo.Capabilities = here }()
	shellsInfo.Capabilities = append(slices.Clone(here), backend.CapShared)
	s := r.suspended(alice, `one '{"city":"a"}'`, "one")
	shellsInfo.Capabilities = here
	release, busy, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer func() {
		close(release)
		<-done
	}()
	r.shells.onRun = func(ctx context.Context, _ backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		close(busy)
		<-release
		_ = rio.Started()
		return backend.RunResult{Stop: backend.StopExit}, nil, true
	}
	go func() { defer close(done); r.exec(bob, "x") }()
	<-busy
	r.shells.onRun = nil
	if end := into[said](t, r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 200); end.Stdout != "1\n" {
		t.Errorf("%+v", end)
	}
}
