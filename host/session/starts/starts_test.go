package starts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a Service over an account whose programs run until they are let go.
type rig struct {
	*Service
	account *account.Account
	backend *slow
	log     *strings.Builder
	logMu   sync.Mutex
}

// slow runs programs until the test lets them end, or ctx does.
type slow struct {
	*account.Account
	release chan struct{}
	hang    bool // before the program starts
	envs    chan map[string]string
}

func (s *slow) Run(ctx context.Context, spec backend.RunSpec, io backend.RunIO) (backend.RunResult, error) {
	if s.hang {
		<-ctx.Done()
		return backend.RunResult{}, ctx.Err()
	}
	if err := io.Started(); err != nil {
		return backend.RunResult{}, err
	}
	s.envs <- spec.Env
	select {
	case <-s.release:
		return backend.RunResult{Stop: backend.StopExit}, nil
	case <-ctx.Done():
		return backend.RunResult{Stop: backend.StopCanceled}, nil
	}
}

// targets serves the slow backend.
type targets struct {
	*account.Replica
	b *slow
}

func (t targets) Default(ctx context.Context, tenant string) (session.Target, error) {
	return t.Named(ctx, tenant, "main")
}

func (t targets) Named(ctx context.Context, tenant, config string) (session.Target, error) {
	target, err := t.Replica.Named(ctx, tenant, config)
	if err == nil {
		target.Backend = t.b
	}
	return target, err
}

type syncWriter struct{ r *rig }

func (w syncWriter) Write(p []byte) (int, error) {
	w.r.logMu.Lock()
	defer w.r.logMu.Unlock()
	return w.r.log.Write(p)
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{account: account.New(time.Now, backend.CapNames, backend.CapList, backend.CapMetadata), log: &strings.Builder{}}
	r.backend = &slow{Account: r.account, release: make(chan struct{}), envs: make(chan map[string]string, 100)}
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Sessions: minted.New(minted.Options{
			Keys: keys, Store: store, Deployment: "test",
			Targets: targets{account.NewReplica(t, map[string]*account.Account{"main": r.account}, "main"), r.backend},
		}),
		Plan: func(context.Context, session.Target, string, Sandbox) (backend.RunSpec, error) {
			return backend.RunSpec{
				Program: backend.Program{File: "start", Source: []byte("x")},
				Steps:   []backend.Step{{Name: "run", Argv: []string{"start"}}},
			}, nil
		},
		Log: hclog.New(&hclog.LoggerOptions{Output: syncWriter{r}}),
	}
	for _, f := range change {
		f(&o)
	}
	if r.Service, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		_ = store.Close()
		if live := r.account.Live(); len(live) != 0 {
			t.Errorf("sandboxes are left: %v", live)
		}
	})
	return r
}

func (r *rig) logged() string {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	return r.log.String()
}

var image = Sandbox{Snapshot: "img"}

func TestStartBeginsAndDoesNotWait(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Credential = func(_ context.Context, org, id string) (map[string]string, error) {
			return map[string]string{"TOKEN": "of " + org + " for " + id}, nil
		}
	})
	id, err := r.Start(t.Context(), "acme", Sandbox{
		Snapshot: "img", Env: map[string]string{"TASK": "1", "TOKEN": "stolen"}, Labels: map[string]string{"app": "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sb := r.account.Live()[0]
	if md := sb.Metadata; sb.ID != id || md.Tenant != "acme" || md.Origin != "start" || md.Labels["app"] != "x" || md.Labels[session.LabelUntil] == "" {
		t.Errorf("sandbox %s, metadata %+v", sb.ID, md)
	}
	if env := <-r.backend.envs; env["TASK"] != "1" || env["TOKEN"] != "of acme for "+id {
		t.Errorf("environment %v", env)
	}
	close(r.backend.release)
	for len(r.account.Live()) > 0 { // its session ends with it
		runtime.Gosched()
	}
}

func TestStartReturnsWhenItsCallerIsDone(t *testing.T) {
	r := newRig(t)
	r.backend.hang = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if id, err := r.Start(ctx, "acme", image); !errors.Is(err, context.DeadlineExceeded) || id != "" {
		t.Errorf("Start = %q, %v", id, err)
	}
	r.Close() // so that nobody reads what is changed now
	// The provider hangs, and then answers when nobody waits any more: nothing begins.
	r = newRig(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	r.account.Before = func(_ context.Context, op, _ string) error {
		if op == "Create" {
			close(entered)
			<-leave
		}
		return nil
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := r.Start(ctx, "acme", image); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v", err)
	}
	close(leave)
	for r.account.Count("Delete") == 0 {
		runtime.Gosched()
	}
	if n := len(r.backend.envs); n != 0 {
		t.Errorf("%d programs ran for nobody", n)
	}
}

func TestAnInvocationIsBounded(t *testing.T) {
	r := newRig(t)
	v := r.Invoke("f")
	for _, bad := range []string{`{}`, `{"snapshot":"a","org":"x"}`, `nope`} {
		var wrong *SpecError
		if _, err := v.Start(t.Context(), "acme", []byte(bad)); !errors.As(err, &wrong) {
			t.Errorf("Start(%s) = %v", bad, err)
		}
	}
	var mu sync.Mutex
	started, refused := 0, 0
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, err := v.Start(t.Context(), "acme", []byte(`{"snapshot":"img"}`))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				started++
			case errors.Is(err, ErrTooMany):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if started != 8 || refused != 22 || len(r.account.Made()) != 8 {
		t.Errorf("%d started, %d refused, %d made", started, refused, len(r.account.Made()))
	}
	// Another call of the function has its own bound.
	if _, err := r.Invoke("f").Start(t.Context(), "acme", []byte(`{"snapshot":"img"}`)); err != nil {
		t.Error(err)
	}
}

func TestRateAndRoom(t *testing.T) {
	clock := account.NewClock()
	r := newRig(t, func(o *Options) { o.PerMinute, o.Running, o.Now = 2, 3, clock.Now })
	start := func(org string) error { _, err := r.Start(t.Context(), org, image); return err }
	for _, want := range []error{nil, nil, ErrRateLimited} {
		if err := start("acme"); !errors.Is(err, want) {
			t.Errorf("Start = %v, want %v", err, want)
		}
	}
	if err := start("other"); err != nil { // counted apart
		t.Error(err)
	}
	clock.Advance(time.Minute)
	if err := start("acme"); !errors.Is(err, ErrFull) {
		t.Errorf("Start = %v, want ErrFull", err)
	}
}

func TestWhoseWorkItIs(t *testing.T) {
	r := newRig(t)
	if _, err := r.Start(t.Context(), "", image); !errors.Is(err, ErrUnowned) {
		t.Errorf("Start without an organisation = %v", err)
	}
	one := newRig(t, func(o *Options) { o.Org = "the-only" })
	if _, err := one.Start(t.Context(), "", image); err != nil || one.account.Live()[0].Metadata.Tenant != "the-only" {
		t.Errorf("Start in a deployment of one tenant = %v", err)
	}
	var none *Service
	if _, err := none.Start(t.Context(), "acme", image); !errors.Is(err, ErrNoRuntime) {
		t.Errorf("Start without a runtime = %v", err)
	}
	if _, err := none.Invoke("f").Start(t.Context(), "acme", []byte(`{"snapshot":"img"}`)); !errors.Is(err, ErrNoRuntime) {
		t.Errorf("Start without a runtime = %v", err)
	}
}

// A caller learns that it did not start; the log learns why.
func TestFailuresAreTheDeployments(t *testing.T) {
	const secret = "key sk-123 refused by https://10.0.0.1"
	r := newRig(t)
	for _, op := range []string{"Create"} {
		r.account.Before = func(_ context.Context, o, _ string) error {
			if o == op {
				return &backend.Error{Kind: backend.KindAuthentication, Message: secret}
			}
			return nil
		}
		_, err := r.Invoke("crawl").Start(t.Context(), "acme", []byte(`{"snapshot":"img"}`))
		if err != ErrNotStarted {
			t.Errorf("Start = %v, want exactly ErrNotStarted", err)
		}
	}
	if log := r.logged(); !strings.Contains(log, secret) || !strings.Contains(log, "acme") || !strings.Contains(log, "crawl") {
		t.Errorf("log: %s", log)
	}
	r.account.Before = nil
	r.o.Plan = func(context.Context, session.Target, string, Sandbox) (backend.RunSpec, error) {
		return backend.RunSpec{}, errors.New("no entry point")
	}
	if _, err := r.Start(t.Context(), "acme", image); err != ErrNotStarted {
		t.Errorf("Start = %v", err)
	}
}

// detached is a backend that runs work by itself.
type detached struct {
	*slow
	mu    sync.Mutex
	ended map[string]chan struct{}
}

func (d *detached) StartRun(_ context.Context, spec backend.DetachedStart, io backend.RunIO) error {
	d.mu.Lock()
	d.ended[spec.RunID] = make(chan struct{})
	d.mu.Unlock()
	return io.Started()
}

func (d *detached) AttachRun(ctx context.Context, _ backend.Ref, id string, _ backend.RunIO) (backend.RunResult, error) {
	d.mu.Lock()
	ended := d.ended[id]
	d.mu.Unlock()
	select {
	case <-ended:
		return backend.RunResult{Stop: backend.StopExit}, nil
	case <-ctx.Done():
		return backend.RunResult{}, ctx.Err()
	}
}

func (d *detached) KillRun(context.Context, backend.Ref, string) error { return nil }

type detachedTargets struct {
	targets
	d *detached
}

func (t detachedTargets) Default(ctx context.Context, tenant string) (session.Target, error) {
	return t.Named(ctx, tenant, "main")
}

func (t detachedTargets) Named(ctx context.Context, tenant, config string) (session.Target, error) {
	target, err := t.Replica.Named(ctx, tenant, config)
	target.Backend = t.d
	return target, err
}

// Work that the backend runs by itself outlives this process.
func TestDetachedWorkGoesOn(t *testing.T) {
	r := newRig(t)
	r.account.Caps = append(r.account.Caps, backend.CapDetached)
	d := &detached{slow: r.backend, ended: make(map[string]chan struct{})}
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r.o.Sessions = minted.New(minted.Options{
		Keys: keys, Store: store, Deployment: "test",
		Targets: detachedTargets{targets{account.NewReplica(t, map[string]*account.Account{"main": r.account}, "main"), r.backend}, d},
	})
	first, err := r.Start(t.Context(), "acme", image)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Start(t.Context(), "acme", image)
	if err != nil {
		t.Fatal(err)
	}
	close(d.ended[first])
	for len(r.account.Live()) > 1 { // ended with its work
		runtime.Gosched()
	}
	r.Close()
	if live := r.account.Live(); len(live) != 1 || live[0].ID != second {
		t.Errorf("live after Close: %v", live)
	}
	r.account.Vanish(second)
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxValue+1)
	var many []string
	for i := range maxLabels + 1 {
		many = append(many, fmt.Sprintf(`"l%d":""`, i))
	}
	for _, c := range []struct{ in, field string }{
		{`{"snapshot":"team/name:default"}`, ""},
		{`{"snapshot":"a","env":{"A":"1"},"labels":{"Run":"7"}}`, ""},
		{`{"snapshot":"a","org":"x"}`, `"org"`},
		{`{"snapshot":"a","command":["x"]}`, `"command"`},
		{`{"snapshot":"a","Snapshot":"b"}`, `"Snapshot"`},
		{`{"snapshot":"a","snapshot":"b"}`, `"snapshot"`},
		{`{"Env":{},"snapshot":"a"}`, `"Env"`},
		{`{"snapshot":1}`, "snapshot"},
		{`{"snapshot":""}`, "snapshot"},
		{`{"snapshot":"../x"}`, "snapshot"},
		{`{}`, "snapshot"},
		{`[]`, "spec"},
		{`null`, "spec"},
		{``, "spec"},
		{`{"snapshot":"a"} {}`, "spec"},
		{`{"snapshot":"a","env":{"A=B":"1"}}`, "env"},
		{`{"snapshot":"a","env":{"A":"` + long + `"}}`, "env.A"},
		{`{"snapshot":"a","env":{"A":"\u0000"}}`, "env.A"},
		{`{"snapshot":"a","labels":{"caisson.session":"x"}}`, "labels"},
		{`{"snapshot":"a","labels":{"Caisson.payer":"x"}}`, "labels"},
		{`{"snapshot":"a","labels":{"exec.kind":"x"}}`, "labels"},
		{`{"snapshot":"a","labels":{"a\n":"x"}}`, "labels"},
		{`{"snapshot":"a","labels":{"a":"x\n"}}`, "labels.a"},
		{`{"snapshot":"a","labels":{` + strings.Join(many, ",") + `}}`, "labels"},
		{strings.Repeat(" ", maxSpec+1), "spec"},
	} {
		_, err := Parse([]byte(c.in))
		var wrong *SpecError
		if errors.As(err, &wrong) != (c.field != "") || (wrong != nil && wrong.Field != c.field) {
			t.Errorf("Parse(%.60s) = %v, want a complaint about %q", c.in, err, c.field)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"snapshot":"a","env":{"A":"1"},"labels":{"b":"c"}}`))
	f.Add([]byte(`{"snapshot":"a","Labels":{"caisson.x":"c"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		for k := range s.Labels {
			if strings.HasPrefix(strings.ToLower(k), "caisson.") || strings.HasPrefix(strings.ToLower(k), "exec.") {
				t.Errorf("%q passed", k)
			}
		}
		if s.Check() != nil {
			t.Error("what was parsed does not pass its own check")
		}
	})
}
