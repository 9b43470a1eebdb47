// Package starts begins work that outlives whoever asked for it: a function starts a
// sandbox and gets back the name that the work is known by. It never waits for the
// work, never learns more than that it did or did not begin, and hands over no
// credential: the work authenticates as itself and writes its result where it is
// allowed to.
package starts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// Errors of Start, in words that a caller may read. Everything else about a failure
// is in the log.
var (
	// ErrNoRuntime: this deployment has nowhere to run work.
	ErrNoRuntime = errors.New("no sandbox runtime is installed here")
	// ErrNotStarted: the work did not begin.
	ErrNotStarted = errors.New("the sandbox did not start")
	// ErrUnowned: the deployment tells organisations apart and the request has none.
	ErrUnowned = errors.New("a sandbox needs an organisation to belong to")
	// ErrTooMany: this invocation has started as many as one may. The caller's fault
	// (429).
	ErrTooMany = errors.New("this call has started as many sandboxes as it may")
	// ErrRateLimited: the organisation starts too many in a short time. The caller's
	// fault (429).
	ErrRateLimited = errors.New("too many sandboxes were started in the last minute")
	// ErrFull: as much work as allowed is running. It may be tried later.
	ErrFull = errors.New("too many started sandboxes are running")
)

// Defaults of Options.
const (
	DefaultTTL           = time.Hour
	DefaultPerInvocation = 8
	DefaultPerMinute     = 60
	DefaultRunning       = 64

	// beginTimeout bounds the beginning of work nobody waits for any more.
	beginTimeout = 5 * time.Minute
	endTimeout   = 30 * time.Second
)

// Options of New. Sessions and Plan are required.
type Options struct {
	Sessions *minted.Sessions
	// Plan says how the entry point of s runs on t: a RunSpec without Ref, RunID and
	// Env.
	Plan func(ctx context.Context, t session.Target, org string, s Sandbox) (backend.RunSpec, error)
	// Org is whose work it is where the deployment does not tell organisations apart;
	// empty means that it does, and that work without one is refused.
	Org string
	// TTL ends the work at the latest: DefaultTTL.
	TTL time.Duration
	// PerInvocation bounds what one invocation starts, PerMinute what an organisation
	// does, apart from any other limit, and Running what runs at once in all.
	// Zero members take the defaults.
	PerInvocation, PerMinute, Running int
	// Credential returns further variables by which the work authenticates, as
	// itself; nil means that it has none. It is never the caller's own credential.
	Credential func(ctx context.Context, org, id string) (map[string]string, error)
	// Payer pays for the time that org's sandboxes are held; nil means nobody does.
	Payer func(org string) string
	Log   hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Service starts work. A nil Service refuses with ErrNoRuntime, so that what may be
// asked for reads the same everywhere. It is safe for concurrent use.
type Service struct {
	o    Options
	life context.Context
	end  context.CancelFunc
	runs sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	minute  time.Time      // when counts began
	counts  map[string]int // starts by organisation in that minute
}

// New returns a Service. Close ends it.
func New(o Options) (*Service, error) {
	if o.Sessions == nil || o.Plan == nil {
		return nil, errors.New("starts: sessions and a plan are required")
	}
	for _, d := range []struct {
		p   *int
		def int
	}{{&o.PerInvocation, DefaultPerInvocation}, {&o.PerMinute, DefaultPerMinute}, {&o.Running, DefaultRunning}} {
		if *d.p < 0 {
			return nil, errors.New("starts: a bound is negative")
		}
		if *d.p == 0 {
			*d.p = d.def
		}
	}
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, counts: make(map[string]int)}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Close starts nothing any more and waits for the goroutines. Work that a backend runs
// by itself goes on, and ends with its TTL at the latest; other work ends.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.runs.Wait()
}

// Start begins one sandbox for org and returns the name it is known by, once the work
// has begun. It returns when ctx is done, whatever the backend does: the work then
// begins for nobody and is ended.
//
// org comes from the credential that the request was admitted with and is never read
// out of spec. Errors are those of this package, *SpecError or ctx's own.
func (s *Service) Start(ctx context.Context, org string, spec Sandbox) (string, error) {
	return s.start(ctx, org, "", func() (Sandbox, error) { return spec, spec.Check() }, func() error { return nil })
}

func (s *Service) start(ctx context.Context, org, function string, read func() (Sandbox, error), count func() error) (string, error) {
	if s == nil {
		return "", ErrNoRuntime
	}
	spec, err := read()
	if err != nil {
		return "", err
	}
	if org == "" {
		org = s.o.Org
	}
	if org == "" {
		return "", ErrUnowned
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := count(); err != nil {
		return "", err
	}
	if err := s.admit(org); err != nil {
		return "", err
	}
	b := &beginning{told: make(chan struct{})}
	s.runs.Go(func() { s.run(org, spec, b) })
	select {
	case <-b.told:
	case <-ctx.Done():
		if b.abandon() {
			return "", ctx.Err()
		}
	}
	id, err := b.outcome()
	if err != nil {
		s.o.Log.Error("a sandbox did not start", "org", org, "function", function, "snapshot", spec.Snapshot, "error", err)
		return "", ErrNotStarted
	}
	return id, nil
}

// admit counts a start, or refuses it. Whoever is admitted runs.
func (s *Service) admit(org string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrNotStarted
	}
	if now := s.o.Now(); now.Sub(s.minute) >= time.Minute || now.Before(s.minute) {
		s.minute = now
		clear(s.counts)
	}
	if s.counts[org] >= s.o.PerMinute {
		return ErrRateLimited
	}
	if s.running >= s.o.Running {
		return ErrFull
	}
	s.counts[org]++
	s.running++
	return nil
}

// run begins the work, tells b, follows the work to its end and ends its session.
func (s *Service) run(org string, spec Sandbox, b *beginning) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	owner := session.Owner{Tenant: org}
	x, err := s.session(owner, spec)
	if err != nil {
		b.tell(err)
		return
	}
	defer x.Release()
	kept := false // whether the work goes on without us
	defer func() {
		if kept {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if err := s.o.Sessions.End(ctx, owner, x.ID); err != nil && !errors.Is(err, session.ErrNotFound) {
			s.o.Log.Warn("a started sandbox is left to its clock", "session", x.ID, "error", err)
		}
	}()
	b.id = x.ID
	run, err := s.spec(org, x, spec)
	if err == nil {
		kept, err = s.follow(x, run, b)
	}
	if b.tell(errors.Join(err, errUnbegun)) || err == nil || s.life.Err() != nil {
		return
	}
	s.o.Log.Warn("started work was lost", "org", org, "session", x.ID, "error", err)
}

// errUnbegun is told of work that ended before it began.
var errUnbegun = errors.New("it did not begin")

// follow runs the work and returns when it has ended, or when the Service has; kept
// says that the backend then runs it on.
func (s *Service) follow(x session.Session, run backend.RunSpec, b *beginning) (kept bool, err error) {
	d, ok := backend.Optional[backend.DetachedRunner](x.Backend, x.Info)
	if !ok {
		ctx, cancel := context.WithTimeout(s.life, s.o.TTL)
		defer cancel()
		_, err := x.Backend.Run(ctx, run, b)
		return false, err
	}
	ctx, cancel := context.WithTimeout(s.life, beginTimeout)
	defer cancel()
	if err := d.StartRun(ctx, backend.DetachedStart{RunSpec: run, TTL: s.o.TTL}, b); err != nil {
		return false, err
	}
	if err := b.Started(); err != nil {
		return false, err
	}
	x.Lasts() // for as long as the work does
	_, err = d.AttachRun(s.life, run.Ref, run.RunID, b)
	return s.life.Err() != nil, err
}

// session makes the work's sandbox on org's default target.
func (s *Service) session(owner session.Owner, spec Sandbox) (session.Session, error) {
	ctx, cancel := context.WithTimeout(s.life, beginTimeout)
	defer cancel()
	t, err := s.o.Sessions.Default(ctx, owner)
	if err != nil {
		return session.Session{}, err
	}
	o := session.CreateOptions{Origin: session.OriginStart, Labels: spec.Labels, Snapshot: spec.Snapshot, TTL: s.o.TTL}
	if s.o.Payer != nil {
		o.Payer = s.o.Payer(owner.Tenant)
	}
	x, err := s.o.Sessions.Create(ctx, owner, t, o)
	if err != nil {
		t.Release()
	}
	return x, err
}

// spec plans the work. The environment is given to the run: providers may refuse to
// be told one for a sandbox that starts from a snapshot.
func (s *Service) spec(org string, x session.Session, spec Sandbox) (backend.RunSpec, error) {
	ctx, cancel := context.WithTimeout(s.life, beginTimeout)
	defer cancel()
	run, err := s.o.Plan(ctx, x.Target, org, spec)
	if err != nil {
		return run, fmt.Errorf("plan: %w", err)
	}
	env := maps.Clone(run.Env)
	if env == nil {
		env = make(map[string]string)
	}
	maps.Copy(env, spec.Env)
	if s.o.Credential != nil {
		own, err := s.o.Credential(ctx, org, x.ID)
		if err != nil {
			return run, fmt.Errorf("credential: %w", err)
		}
		maps.Copy(env, own)
	}
	run.Ref, run.RunID, run.Env, run.Collect.Skip = x.Sandbox.Ref, x.ID, env, true
	if run.Limits.Wall == 0 || run.Limits.Wall > s.o.TTL {
		run.Limits.Wall = s.o.TTL
	}
	return run, run.Check()
}
