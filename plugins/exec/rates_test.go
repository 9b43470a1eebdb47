package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/telemetry"
)

// plenty lets everything through: the clock of a rig stands still.
func plenty() map[RateClass]Rate {
	m := make(map[RateClass]Rate)
	for _, c := range RateClasses() {
		m[c] = Rate{Requests: 1 << 20, Per: time.Second, Burst: 1 << 20}
	}
	return m
}

// The contract of 429: a body that agents parse and the header that others read.
func TestRateLimit(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	r := measuredRig(t, tel, func(o *Options) {
		o.Rates = map[RateClass]Rate{RateRuns: {Requests: 60, Per: time.Minute, Burst: 2}, RateReads: {Requests: 1, Per: time.Hour, Burst: 1}}
		o.KeyRates = map[RateClass]Rate{RateReads: {Requests: 1, Per: time.Hour, Burst: 2}}
	})
	list := func(key string) answer { return r.get(key, "/v1/files/AAAAAAAAAAAAAAAAAAAAA") }
	for range 2 {
		r.exec(alice, "true")
	}
	a := r.post(alice, "/exec", "this is no JSON") // it is not read
	e := into[obj](t, a, 429)
	if e["error"] != "rate_limited" || e["retry_after_seconds"] != 1.0 || e["status"] != 429.0 || e["message"] == "" || a.header.Get("Retry-After") != "1" {
		t.Errorf("%v, Retry-After %q", e, a.header.Get("Retry-After"))
	}
	r.exec(bob, "true") // another user of the same tenant
	list(alice)         // another class
	if e := into[obj](t, list(alice), 429); e["retry_after_seconds"] != 3600.0 {
		t.Errorf("%v", e)
	}
	list(both) // alice again, beside a key
	into[obj](t, list(both), 429)
	list(service)
	list(service)
	into[obj](t, list(service), 429)
	into[obj](t, list("nobody"), 401) // is not let in and counts for nobody
	r.clock.advance(time.Second)
	r.exec(alice, "true")
	into[obj](t, r.post(alice, "/exec", obj{"lang": "bash", "code": "true"}), 429)
	if got := scrape(t, tel); !strings.Contains(got, `caisson_rate_limited_total{class="runs"} 2`) ||
		!strings.Contains(got, `caisson_rate_principals 2`) {
		t.Errorf("metrics:\n%s", got)
	}
	if n := len(r.usage()); n != 4 {
		t.Errorf("%d runs are recorded, want 4", n)
	}
	for range 100 {
		into[obj](t, r.get("", "/health"), 200) // nobody's
	}
}

// Every route has a class, and is refused before anything is done.
func TestEveryRouteIsLimited(t *testing.T) {
	none := make(map[RateClass]int)
	r := newRig(t, func(o *Options) { o.Limiter = limiter{none} })
	d := &door{Interpreter: r.Interpreter}
	for _, rt := range d.routes() {
		if rt.public {
			continue
		}
		path := strings.NewReplacer("{sid}", "AAAAAAAAAAAAAAAAAAAAA", "{fid...}", "AAAAAAAAAAAAAAAAAAAAA").Replace(rt.path)
		for method := range rt.methods {
			a := r.do(r.request(method, alice, "/v1"+path, nil))
			if a.status != 429 || a.header.Get("Retry-After") != "7" {
				t.Errorf("%s %s: %d, Retry-After %q", method, path, a.status, a.header.Get("Retry-After"))
			}
		}
	}
	if len(none) != len(RateClasses()) {
		t.Errorf("asked for %v", none)
	}
}

// limiter refuses everything.
type limiter struct{ asked map[RateClass]int }

func (l limiter) Take(_ context.Context, p host.Principal, c RateClass) (time.Duration, error) {
	l.asked[c]++
	return 6500 * time.Millisecond, nil
}

type brokenLimiter struct{}

func (brokenLimiter) Take(context.Context, host.Principal, RateClass) (time.Duration, error) {
	return 0, errors.New("the store at 10.0.0.7 is down")
}

func TestBrokenLimiterRefuses(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limiter = brokenLimiter{} })
	a := r.post(alice, "/exec", obj{"lang": "bash", "code": "true"})
	e := into[obj](t, a, 503)
	if e["code"] != "rate_unavailable" || strings.Contains(string(a.body), "10.0.0.7") || a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a.body)
	}
}

func TestRateOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no class": {Rates: map[RateClass]Rate{"rums": {}}},
		"negative": {KeyRates: map[RateClass]Rate{RateRuns: {Burst: -1}}},
		"few":      {RatePrincipals: -1},
		"memory":   {MemoryBytes: -1},
		"time":     {Stall: -1},
		"batch":    {UploadBytes: 1 << 61},
	} {
		if _, err := o.complete(); err == nil || !strings.HasPrefix(err.Error(), "exec: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The request's class is found by its route alone.
func TestClassOf(t *testing.T) {
	for path, want := range map[string]RateClass{
		"/exec": RateRuns, "/exec/programmatic": RateRounds, "/exec/programmatic/cancel": RateRounds, "/upload/batch": RateUploads,
		"/download/{sid}": RateDownloads, "/files/{sid}": RateReads, "/languages": RateReads, "/sessions/{sid}/objects/{fid...}": RateReads,
	} {
		if got := classOf(path); got != want {
			t.Errorf("%s is of class %s, want %s", path, got, want)
		}
	}
}

// What a machine declares to use is what runs wait for.
func TestMemoryAdmission(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	r := measuredRig(t, tel, func(o *Options) { o.MemoryBytes, o.TenantMemoryBytes, o.Running, o.TenantShare = 300, 200, 8, 8 })
	r.limits.MemoryBytes = 100
	gate := t.TempDir()
	code := func(name string) string {
		return fmt.Sprintf("touch %[1]s/%[2]s; while [ ! -e %[1]s/go ]; do sleep 0.01; done", gate, name)
	}
	done := make(chan int, 4)
	for i, key := range []string{alice, alice, alice, mallory} {
		go func() {
			done <- r.post(key, "/exec", obj{"lang": "bash", "code": code(strconv.Itoa(i))}).status
		}()
	}
	// Two of three of one tenant, and the other's.
	waitFor(t, func() bool {
		s := r.queue.Stats()
		return s.Running == 3 && s.Waiting == 1 && s.Memory == 300
	})
	if got := scrape(t, tel); !strings.Contains(got, "caisson_memory_admitted_bytes 300") || !strings.Contains(got, "caisson_memory_budget_bytes 300") {
		t.Errorf("metrics:\n%s", got)
	}
	touch(t, gate+"/go")
	for range 4 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if s := r.queue.Stats(); s.Memory != 0 || s.Running != 0 {
		t.Errorf("left: %+v", s)
	}
}

// To begin a program takes a run, however it is begun; to go on with it or cancel it does not.
func TestProgramsAreRuns(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Rates = map[RateClass]Rate{RateRuns: {Requests: 1, Per: time.Hour, Burst: 2}}
	})
	s := r.suspended(alice, `one '{"city":"a"}'; one '{"city":"b"}'`, "one")
	r.exec(alice, "true")
	for _, path := range []string{programPath, "/exec"} {
		if e := into[obj](t, r.post(alice, path, obj{"lang": "bash", "code": "true"}), 429); e["error"] != "rate_limited" || e["retry_after_seconds"] != 3600.0 {
			t.Errorf("%s: %v", path, e)
		}
	}
	s = into[said](t, r.goOn(alice, s.ContinuationToken, ok("call_001", 1)), 200)
	if end := into[said](t, r.goOn(alice, s.ContinuationToken, ok("call_002", 1)), 200); end.Status != "completed" {
		t.Errorf("%+v", end)
	}
	into[obj](t, r.post(alice, programPath+"/cancel", obj{"request_id": "none"}), 202)
}
