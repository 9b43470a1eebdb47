package exec

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// measuredRig is a rig that is measured.
func measuredRig(t *testing.T, tel *telemetry.Telemetry, adjust ...func(*Options)) *rig {
	t.Helper()
	return newRigWith(t, func(r *rig) { r.measured = tel }, adjust...)
}

func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String()
}

func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsOfRuns(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	r := measuredRig(t, tel)
	res := r.exec(rich, "echo a; exit 3")
	r.exec(rich, "sleep 60", obj{"timeout": 1000})
	into[obj](t, r.post(broke, "/v1/exec", obj{"lang": "bash", "code": "true"}), 402)
	into[obj](t, r.post(rich, "/v1/exec", obj{"lang": "cobol", "code": "true"}), 400)
	r.upload(rich, csv("a.csv", "x"))
	r.get(rich, "/v1/exec/files/"+res.SessionID)
	r.get(rich, "/files/"+res.SessionID+"/")
	got := scrape(t, tel)
	for _, want := range []string{
		`caisson_http_requests_total{method="POST",route="/exec",status="200"} 2`,
		`caisson_http_requests_total{method="POST",route="/exec",status="400"} 1`,
		`caisson_http_requests_total{method="POST",route="/exec",status="402"} 1`,
		`caisson_http_requests_total{method="GET",route="/files/{sid}",status="200"} 2`,
		`caisson_http_requests_in_flight 0`,
		`caisson_runs_total{language="bash",outcome="completed",stop="exit"} 1`,
		`caisson_runs_total{language="bash",outcome="completed",stop="timeout"} 1`,
		`caisson_runs_total{language="bash",outcome="refused",stop="none"} 1`,
		`caisson_runs_total{language="none",outcome="refused",stop="none"} 1`,
		`caisson_charges_total{result="debited"} 2`,
		`caisson_charges_total{result="refused"} 1`,
		`caisson_holds 0`,
		`caisson_sessions_created_total{origin="exec"} 2`,
		`caisson_sessions_created_total{origin="upload"} 1`,
		`caisson_phase_seconds_count{phase="run"} 2`,
		`caisson_phase_seconds_count{phase="queue"} 2`,
		`caisson_phase_seconds_count{phase="ledger.debit"} 2`,
		`caisson_queue_running 0`, `caisson_queue_places 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// Spans tell where the time went, and nothing of what a caller wrote.
func TestSpansOfARun(t *testing.T) {
	mem := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(mem))
	tel := telemetry.New(telemetry.Options{Tracing: provider})
	r := measuredRig(t, tel)
	q := r.request("POST", rich, "/v1/exec?token=hunter2", strings.NewReader(`{"lang":"bash","code":"echo hunter2","apiKey":"hunter2","args":["hunter2"]}`))
	q.Header.Set("Authorization", "Bearer hunter2")
	// The rig mounts without the host, which begins the span.
	ctx, span := tel.Request(q)
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, q.WithContext(ctx))
	span.End(nil)
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	below := make(map[string]bool)
	root := mem.GetSpans()[len(mem.GetSpans())-1]
	for _, s := range mem.GetSpans() {
		if s.Parent.SpanID() == root.SpanContext.SpanID() {
			below[s.Name] = true
		}
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), "hunter2") {
				t.Errorf("span %s tells %s", s.Name, a.Key)
			}
		}
	}
	for _, want := range []string{"caisson.ledger.reserve", "caisson.queue", "caisson.session", "caisson.run"} {
		if !below[want] {
			t.Errorf("there is no span %s below the request: %v", want, below)
		}
	}
	said := make(map[string]string)
	for _, a := range root.Attributes {
		said[string(a.Key)] = a.Value.String()
	}
	if said["caisson.language"] != "bash" || said["caisson.stop"] != "exit" || said["http.response.status_code"] != "200" {
		t.Errorf("the request's span says %v", said)
	}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The log has one line for each request, and nothing that a caller keeps secret.
func TestAccessLog(t *testing.T) {
	r := newRig(t)
	q := r.request("POST", rich, "/v1/exec?api_key=hunter2", strings.NewReader(`{"lang":"bash","code":"echo hunter2","apiKey":"hunter2"}`))
	q.Header.Set("Authorization", "Bearer hunter2")
	q.Header.Set("Cookie", "s=hunter2")
	r.do(q)
	r.do(r.request("GET", "hunter2", "/v1/files/hunter2", nil))
	log := r.log.String()
	if strings.Contains(log, "hunter2") {
		t.Errorf("the log tells secrets:\n%s", log)
	}
	if n := strings.Count(log, " request: "); n != 2 {
		t.Errorf("%d lines:\n%s", n, log)
	}
	for _, want := range []string{"method=POST route=/exec status=200", "bytes=", "org=acme via=bearer", "route=/files/{sid} status=401"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// Programs that call tools are counted while they live, and apart while they wait.
func TestMetricsOfPrograms(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	r := measuredRig(t, tel)
	counted := func(when string, all, waiting int) {
		t.Helper()
		got := scrape(t, tel)
		for _, want := range []string{fmt.Sprintf("caisson_programs %d\n", all), fmt.Sprintf("caisson_programs_suspended %d\n", waiting)} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: lacks %s\n%s", when, want, got)
			}
		}
	}
	counted("before", 0, 0)
	s := r.suspended(rich, `one '{"city":"a"}'`, "one")
	other := r.suspended(alice, `one '{"city":"a"}'; touch began; until [ -e end ]; do sleep 0.05; done`, "one")
	counted("while both wait", 2, 2)
	answered := make(chan answer, 1)
	go func() { answered <- r.goOn(alice, other.ContinuationToken, ok(other.ToolCalls[0].ID, 1)) }()
	waitFor(t, func() bool { return r.content(other.SessionID, "began") == "" })
	counted("while one goes on", 2, 1)
	into[said](t, r.goOn(rich, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 200)
	r.write(other.SessionID, "end", "")
	into[said](t, <-answered, 200)
	r.alive(0, 0)
	counted("afterwards", 0, 0)
}

func TestRouteOf(t *testing.T) {
	r := newRig(t)
	d := &door{Interpreter: r.Interpreter, paths: map[string]bool{"/exec": true, "/files/{sid}": true, "/files/{sid}/{fid...}": true}}
	for pattern, want := range map[string]string{
		"/exec": "/exec", "POST /v1/exec/exec": "/exec", "POST /exec": "/exec", "POST /v1/exec/{$}": "/exec",
		"GET /v1/exec/files/{sid}": "/files/{sid}", "DELETE /v1/files/{sid}/{fid...}": "/files/{sid}/{fid...}",
	} {
		if got := d.routeOf(pattern); got != want {
			t.Errorf("%q is of route %q, want %q", pattern, got, want)
		}
	}
}

// A reader that takes nothing is given up on, and its run's turn was given back before.
func TestSlowReader(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Stall, o.Running, o.TenantRunning, o.KeepAlive = 300*time.Millisecond, 1, 1, time.Hour
	})
	r.limits.StdoutBytes = 64 << 20
	defer r.unread("/exec", obj{"lang": "bash", "code": "head -c 33554432 /dev/zero | tr '\\0' x"}).Close()
	// Its run is over and its answer is not: another may run, but the place is taken.
	waitFor(t, func() bool {
		s := r.queue.Stats()
		return s.Places == 1 && s.Running == 0 && len(r.usage()) == 1
	})
	r.exec(mallory, "true")
	waitFor(t, func() bool { return r.queue.Stats().Places == 0 })
	r.server.Close() // waits for the handler and its line
	if log := r.log.String(); !strings.Contains(log, "status=499") || !strings.Contains(log, "timeout") {
		t.Errorf("log:\n%s", log)
	}
}

// unread posts a body and never reads the answer.
func (r *rig) unread(path string, body obj) net.Conn {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Length: " + strconv.Itoa(len(b)) + "\r\n\r\n" + string(b))
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	return c
}

// So it is with programs: with what a program ended in, and with what it asks for.
func TestSlowReadersOfPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		lang, code      string
		suspended, paid int
	}{
		"end":   {"bash", `head -c 33554432 /dev/zero | tr '\0' x`, 0, 1},
		"round": {"py", "import asyncio\nawait asyncio.gather(*(one(city='x' * 4_000_000) for _ in range(5)))", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) {
				o.Stall, o.Running, o.TenantRunning, o.KeepAlive = time.Second, 1, 1, time.Hour
			})
			r.limits.StdoutBytes = 64 << 20
			defer r.unread(programPath, obj{"lang": c.lang, "code": c.code, "tools": defs("one")}).Close()
			waitFor(t, func() bool {
				s := r.queue.Stats()
				all, waiting := r.programs.Live()
				return s.Places == 1 && s.Running == 0 && all == c.suspended && waiting == all && len(r.usage()) == c.paid
			})
			r.exec(mallory, "true")
			waitFor(t, func() bool { return r.queue.Stats().Places == 0 })
		})
	}
}

// A reader that is slow and goes on gets everything.
func TestPatientWithReadersThatGoOn(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Stall = 2 * time.Second })
	r.limits.StdoutBytes = 64 << 20
	q := r.request("POST", alice, "/exec", strings.NewReader(`{"lang":"bash","code":"head -c 8388608 /dev/zero | tr '\\0' x"}`))
	res, err := r.server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var n int64
	for {
		m, err := io.CopyN(io.Discard, res.Body, 1<<20)
		n += m
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n < 8<<20 {
		t.Errorf("%d bytes came", n)
	}
}

// A body that comes a byte at a time is given up on although it never falls silent.
func TestTrickledBody(t *testing.T) {
	r := newRig(t, func(o *Options) { o.BodyIdle = 300 * time.Millisecond })
	c := r.raw("POST /exec HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Length: 100000\r\n\r\n{")
	defer c.Close()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 12)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 408" {
		t.Errorf("%q, %v", b, err)
	}
}

// lateReader takes a second for each piece.
type lateReader struct{}

func (lateReader) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return len(p), nil
}

// What is done with a body does not count as its client's silence.
func TestGuardedCountsWaitingOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{body: lateReader{}, ctl: http.NewResponseController(httptest.NewRecorder()), idle: time.Minute, until: time.Now().Add(time.Hour)}
		for range 3 {
			if _, err := g.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		if g.waited != 3*time.Second {
			t.Errorf("waited %v", g.waited)
		}
	})
}
