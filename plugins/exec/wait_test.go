package exec

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/policy"
)

// still is the entry's POST /exec without a network, for tests in which time
// stands still until everybody waits. It is made inside such a test.
type still struct {
	*Interpreter
	h http.Handler
	p host.Principal
}

func (r *rig) still() *still {
	o := r.o
	o.Now = time.Now // of the test's bubble
	i, err := newInterpreter(r, o)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &door{Interpreter: i, billing: host.Free, log: discardLog()}
	return &still{Interpreter: i, h: d.wrap(route{path: "/exec"}, d.exec), p: r.principal[alice]}
}

func (s *still) post(ctx context.Context, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, httptest.NewRequestWithContext(host.WithPrincipal(ctx, s.p), "POST", "/exec", strings.NewReader(body)))
	return w
}

const trueProgram = `{"lang":"bash","code":"true"}`

// sleeps makes runs take d without doing anything.
func (r *rig) sleeps(d time.Duration, then error) {
	r.shells.onRun = func(ctx context.Context, _ backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		if then == nil {
			if err := rio.Started(); err != nil {
				return backend.RunResult{}, err, true
			}
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return backend.RunResult{Stop: backend.StopCanceled, ExitCode: -1}, nil, true
		}
		return backend.RunResult{Stop: backend.StopExit}, then, true
	}
}

func TestLongRunsKeepTheConnectionAlive(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(10*time.Second, nil)
		w := q.post(t.Context(), trueProgram)
		if !strings.HasPrefix(w.Body.String(), "   {") || !w.Flushed || w.Code != 200 || w.Header().Get("Content-Length") != "" {
			t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
		}
		var res CodeResult
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || res.SessionID == "" {
			t.Errorf("%v: %q", err, w.Body)
		}

		r.sleeps(2*time.Second, nil)
		if w = q.post(t.Context(), trueProgram); w.Body.String()[0] != '{' || w.Header().Get("Content-Length") == "" {
			t.Errorf("a short run: %v %q", w.Header(), w.Body)
		}
	})
}

// The same through a real server, whose client sees each byte as it comes.
func TestKeepAliveIsFlushed(t *testing.T) {
	r := newRig(t, func(o *Options) { o.KeepAlive = 5 * time.Millisecond })
	gate := make(chan struct{})
	r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
		<-gate
		return backend.RunResult{}, nil, false
	}
	res, err := r.server.Client().Do(r.request("POST", alice, "/exec", strings.NewReader(trueProgram)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 1)
	if _, err := res.Body.Read(first); err != nil || first[0] != ' ' {
		t.Fatalf("%q, %v", first, err)
	}
	close(gate) // the run goes on only now
	var out CodeResult
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.SessionID == "" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Once white space is out, a failure is a result that says so.
func TestLateFailures(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "true").SessionID
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(7*time.Second, &backend.Error{Kind: backend.KindUnavailable, Message: "10.1.2.3"})
		w := q.post(t.Context(), `{"lang":"bash","code":"true","session_id":"`+s+`"}`)
		var res struct {
			CodeResult
			Error string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || w.Code != 200 {
			t.Fatalf("%d %q: %v", w.Code, w.Body, err)
		}
		if !strings.HasPrefix(w.Body.String(), "  {") || res.SessionID != s || *res.Status != "XX" || res.Error == "" || strings.Contains(w.Body.String(), "10.1") ||
			res.Stderr != "[sandbox] the sandbox backend cannot be reached now\n" {
			t.Errorf("%q", w.Body)
		}
		r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
			time.Sleep(4 * time.Second)
			panic("late")
		}
		w = q.post(t.Context(), trueProgram)
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || w.Code != 200 || res.Error != "internal error" {
			t.Errorf("%d %q: %v", w.Code, w.Body, err)
		}
	})
}

// Whatever refuses a run does so with its own status, however long it takes.
func TestSlowRefusalsKeepTheirStatus(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.admit = func(policy.Request) (policy.Limits, error) {
			time.Sleep(10 * time.Second)
			return policy.Limits{}, &host.PolicyError{Code: "no", Reason: "no"}
		}
		if w := q.post(t.Context(), trueProgram); w.Code != 403 {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

func TestTurnsAreNotWaitedForLong(t *testing.T) {
	r := newRig(t, func(o *Options) { o.TenantRunning = 1; o.MaxWait = 2 * time.Second })
	s := r.exec(alice, "true").SessionID
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(20*time.Second, nil)
		done := make(chan int, 1)
		go func() { done <- q.post(t.Context(), `{"lang":"bash","code":"true","session_id":"`+s+`"}`).Code }()
		synctest.Wait()
		for _, body := range []string{trueProgram, `{"lang":"bash","code":"true","session_id":"` + s + `"}`} {
			w := q.post(t.Context(), body)
			var e obj
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 429 || e["error"] != "rate_limited" || w.Header().Get("Retry-After") != "5" {
				t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
			}
		}
		if code := <-done; code != 200 {
			t.Errorf("the first run answers %d", code)
		}
	})
}

func TestFullQueue(t *testing.T) {
	r := newRig(t, func(o *Options) { o.TenantRunning = 1; o.TenantWaiting = 1; o.Running = 2 })
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(2*time.Second, nil)
		codes := make(chan int, 2)
		ctx, hangUp := context.WithCancel(t.Context())
		go func() { codes <- q.post(t.Context(), trueProgram).Code }()
		synctest.Wait()
		go func() { codes <- q.post(ctx, trueProgram).Code }()
		synctest.Wait()
		w := q.post(t.Context(), trueProgram)
		var e struct {
			Error, Message string
			Seconds        int `json:"retry_after_seconds"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 429 || e.Error != "rate_limited" || e.Message == "" || e.Seconds < 1 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %q %v", w.Code, w.Body, err)
		}
		before := r.shells.created.Load()
		hangUp() // while it waits: it leaves the queue and never runs
		synctest.Wait()
		<-codes
		if code := q.post(t.Context(), trueProgram).Code; code != 200 {
			t.Errorf("after somebody left the queue: %d", code)
		}
		<-codes
		if n := r.shells.created.Load() - before; n != 1 {
			t.Errorf("%d sandboxes, want one", n)
		}
	})
}

// Closing lets runs end, refuses new ones, and stops what takes too long.
func TestClose(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(time.Hour, nil)
		late := make(chan *httptest.ResponseRecorder)
		go func() { late <- q.post(t.Context(), trueProgram) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		closed := make(chan error)
		go func() { closed <- q.close(ctx) }()
		synctest.Wait()
		if w := q.post(t.Context(), trueProgram); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "stopping") {
			t.Errorf("a new run answers %d %q", w.Code, w.Body)
		}
		start := time.Now()
		w := <-late
		if err := <-closed; err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("close = %v after %v", err, time.Since(start))
		}
		if !strings.Contains(w.Body.String(), "the interpreter is stopping") || !strings.Contains(w.Body.String(), `"wall_time":5000`) {
			t.Errorf("the run in flight answers %d %q", w.Code, w.Body)
		}
		if _, err := q.Run(t.Context(), "acme", &CodeRun{Lang: "bash", Code: "true"}); err == nil {
			t.Error("Run after close succeeded")
		} else if he, ok := errors.AsType[*host.HTTPError](err); !ok || he.Status != 503 {
			t.Errorf("Run after close = %v", err)
		}
	})
}

// A backend that does not come back is given up at some point.
func TestRunsAreBounded(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		r.sleeps(time.Hour, nil)
		start := time.Now()
		res, err := q.Run(t.Context(), "acme", &CodeRun{Lang: "bash", Code: "true"})
		if err != nil || *res.Status != "XX" || time.Since(start) != r.limits.Wall+startSlack || res.WallTime != time.Since(start).Milliseconds() {
			t.Errorf("%+v, %v after %v", res, err, time.Since(start))
		}
	})
}
