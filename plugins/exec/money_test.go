package exec

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/caisson-run/caisson/sdk/backend"
)

func (r *rig) balance(w host.Payer) ledger.Balance {
	r.t.Helper()
	b, err := r.ledger.Balance(r.t.Context(), w)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func TestARunIsDebitedOnce(t *testing.T) {
	r := newRig(t)
	res := r.exec(rich, "echo 12345; echo x > f; exit 3")
	u := r.usage()
	if len(u) != 1 || u[0].Payer != "w-rich" || u[0].Cents != 1 || u[0].Org != "acme" || u[0].User != "rich" || u[0].Session != res.SessionID ||
		u[0].Act != host.ActRun || u[0].Outcome != "exit" || u[0].ExitCode != 3 || u[0].BytesOut != 8 || u[0].RunID == "" || u[0].Wall <= 0 {
		t.Errorf("usage = %+v", u)
	}
	if b := r.balance("w-rich"); b.Balance != 999 || b.Held != 0 {
		t.Errorf("balance = %+v", b)
	}
	// Who has no wallet is not billed, and recorded all the same.
	r.exec(alice, "true")
	if u := r.usage(); len(u) != 2 || u[1].Cents != 0 || u[1].Payer != "" {
		t.Errorf("usage = %+v", u)
	}
}

func TestNoMoneyNoRun(t *testing.T) {
	r := newRig(t)
	a := r.post(broke, "/exec", obj{"lang": "bash", "code": "true"})
	e := into[struct {
		Error struct{ Code, Message string }
	}](t, a, 402)
	if e.Error.Code != "insufficient_balance" || e.Error.Message == "" {
		t.Errorf("%s", a.body)
	}
	if err := r.ledger.SetCap(t.Context(), "w-rich", 0); err != nil {
		t.Fatal(err)
	}
	a = r.post(rich, "/exec", obj{"lang": "bash", "code": "true"})
	if !strings.Contains(string(a.body), `"spending_cap_reached"`) || a.status != 402 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if r.shells.created.Load() != 0 || len(r.usage()) != 0 {
		t.Error("something was leased or recorded")
	}
}

func TestFreeRunsAreNotGated(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Fee = func() int64 { return 0 } })
	r.exec(broke, "true")
	if u := r.usage(); len(u) != 1 || u[0].Cents != 0 {
		t.Errorf("usage = %+v", u)
	}
}

// A cent for five runs at once: one of them runs.
func TestParallelRunsCannotShareACent(t *testing.T) {
	r := newRig(t)
	if err := r.ledger.Credit(t.Context(), "w-broke", 1, "a cent"); err != nil {
		t.Fatal(err)
	}
	var ran, refused atomic.Int64
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			switch a := r.post(broke, "/exec", obj{"lang": "bash", "code": "sleep 0.3"}); a.status {
			case 200:
				ran.Add(1)
			case 402:
				refused.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if ran.Load() != 1 || refused.Load() != 4 || r.shells.created.Load() != 1 {
		t.Errorf("%d ran, %d refused, %d leased", ran.Load(), refused.Load(), r.shells.created.Load())
	}
	if b := r.balance("w-broke"); b.Balance != 0 || b.Held != 0 {
		t.Errorf("balance = %+v", b)
	}
}

// What fails before the program starts costs nothing and leaves nothing, but for
// a session that was there before.
func TestFailuresBeforeTheStart(t *testing.T) {
	unavailable := &backend.Error{Kind: backend.KindUnavailable, Op: "Run", Provider: "shells", Message: "pod 10.1.2.3 is down"}
	for _, tt := range []struct {
		name   string
		break_ func(r *rig)
		status int
		code   string
	}{
		{"create", func(r *rig) { r.shells.onCreate = func() error { return unavailable } }, 503, "sandbox_unavailable"},
		{"create, full", func(r *rig) {
			r.shells.onCreate = func() error { return &backend.Error{Kind: backend.KindCapacity, RetryAfter: 7 * time.Second} }
		}, 429, "rate_limited"},
		{"create, slow", func(r *rig) { r.shells.onCreate = func() error { return &backend.Error{Kind: backend.KindTimeout} } }, 504, "execution_timeout"},
		{"create, unknown", func(r *rig) { r.shells.onCreate = func() error { return errors.New("x509: /etc/key.pem") } }, 500, "internal"},
		{"run", func(r *rig) {
			r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
				return backend.RunResult{}, unavailable, true
			}
		}, 503, "sandbox_unavailable"},
		{"run, no start", func(r *rig) {
			r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
				return backend.RunResult{Stop: backend.StopExit}, nil, true
			}
		}, 500, "internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.break_(r)
			a := r.post(rich, "/exec", obj{"lang": "bash", "code": "echo hi"})
			e := into[obj](t, a, tt.status)
			if e["code"] != tt.code || strings.Contains(string(a.body), "10.1") || strings.Contains(string(a.body), "/etc") {
				t.Errorf("%s", a.body)
			}
			if tt.status == 429 && (a.header.Get("Retry-After") != "7" || e["retry_after_seconds"] != 7.0 || e["error"] != "rate_limited") {
				t.Errorf("%v %s", a.header, a.body)
			}
			if b := r.balance("w-rich"); b.Balance != 1000 || b.Held != 0 || len(r.usage()) != 0 {
				t.Errorf("balance = %+v, %d records", b, len(r.usage()))
			}
			if n := len(r.shells.live()); n != 0 {
				t.Errorf("%d sandboxes left", n)
			}
		})
	}
	t.Run("in a session of before", func(t *testing.T) {
		r := newRig(t)
		s := r.exec(alice, "echo 1 > f").SessionID
		r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
			return backend.RunResult{}, unavailable, true
		}
		into[obj](t, r.post(rich, "/exec", obj{"lang": "bash", "code": "true", "session_id": s}), 503)
		if n := len(r.shells.live()); n != 1 {
			t.Errorf("%d sandboxes left, want the one of before", n)
		}
	})
}

// A run that is lost after its start is paid for, and what it said is answered.
func TestLostRuns(t *testing.T) {
	r := newRig(t)
	r.shells.onRun = func(_ context.Context, _ backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		if err := rio.Started(); err != nil {
			return backend.RunResult{}, err, true
		}
		if err := rio.Stdout([]byte("half")); err != nil {
			t.Error(err)
		}
		r.clock.advance(1500 * time.Millisecond)
		return backend.RunResult{}, &backend.Error{Kind: backend.KindUnavailable, Message: "stream 10.1.2.3 broke"}, true
	}
	res := r.exec(rich, "true")
	if res.Stdout != "half" || *res.Status != "XX" || res.WallTime != 1500 || res.Code != nil || res.Stderr != "[sandbox] The sandbox was lost while the program ran\n" {
		t.Errorf("%+v", res)
	}
	if u := r.usage(); len(u) != 1 || u[0].Outcome != "lost" || u[0].Cents != 1 {
		t.Errorf("usage = %+v", u)
	}
	if len(r.shells.live()) != 1 {
		t.Error("the session is gone")
	}
}

// Whoever hangs up stops the program, pays, and keeps the session.
func TestHangUp(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "true").SessionID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.shells.onOutput = cancel
	q := r.request("POST", rich, "/exec", strings.NewReader(`{"lang":"bash","code":"echo $$ > pid; echo; sleep 60","session_id":"`+s+`"}`)).WithContext(ctx)
	if _, err := r.server.Client().Do(q); !errors.Is(err, context.Canceled) {
		t.Fatalf("the request ended with %v", err)
	}
	// The next run of the session waits for this one to be over.
	res := r.exec(alice, "kill -0 $(cat pid) 2>/dev/null && echo lives; true", obj{"session_id": s})
	if res.SessionID != s || res.Stdout != "" {
		t.Errorf("%+v", res)
	}
	var u []ledger.Record
	for _, rec := range r.usage() {
		if rec.Payer == "w-rich" {
			u = append(u, rec)
		}
	}
	if len(u) != 1 || u[0].Outcome != "canceled" || u[0].Cents != 1 {
		t.Errorf("usage = %+v", u)
	}
	r.server.Close() // waits for the handlers and their lines
	if !strings.Contains(r.log.String(), "status=499") {
		t.Errorf("log:\n%s", r.log)
	}
}

// stubborn refuses to record the start.
type stubborn struct {
	host.Billing
	released *atomic.Int64
}

type stubbornCharge struct {
	host.Charge
	released *atomic.Int64
}

func (s stubborn) Reserve(ctx context.Context, p host.Payer, act host.Act, cents int64) (host.Charge, error) {
	c, err := s.Billing.Reserve(ctx, p, act, cents)
	return stubbornCharge{c, s.released}, err
}

func (c stubbornCharge) Started(context.Context, host.Usage) error { return errors.New("disk full") }

func (c stubbornCharge) Release() { c.released.Add(1); c.Charge.Release() }

// No program runs whose start cannot be recorded: a crash would make it free.
func TestStartThatCannotBeRecorded(t *testing.T) {
	r := newRig(t)
	var released atomic.Int64
	d := &door{Interpreter: r.Interpreter, billing: stubborn{r.ledger, &released}, log: discardLog()}
	r.mux = http.NewServeMux()
	r.Handle("POST /v1/exec", d.wrap(route{path: "/exec"}, d.exec), nil)
	r.server.Config.Handler = r.mux
	a := r.post(rich, "/v1/exec", obj{"lang": "bash", "code": "echo ran > f"})
	if a.status != 503 || !strings.Contains(string(a.body), "balance_unavailable") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if b := r.balance("w-rich"); b.Balance != 1000 || b.Held != 0 || released.Load() != 1 {
		t.Errorf("balance = %+v, released %d times", b, released.Load())
	}
	if len(r.shells.live()) != 0 {
		t.Error("the sandbox is left")
	}
}
