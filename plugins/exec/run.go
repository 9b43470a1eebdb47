package exec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// call is one run from admission to its result.
type call struct {
	in        *CodeRun
	place     *queue.Place
	memory    *queue.Held // of a program while it lives
	principal host.Principal
	billing   host.Billing
	cents     int64
	// admitted is called once nothing can refuse the run any more except lack of
	// room; nil is fine.
	admitted func()
	watch    watcher  // nil is fine
	program  *program // nil for a run that calls no tools
	log      hclog.Logger

	runID   string
	foreign string // a session that is somebody else's
	charge  host.Charge
	session string // once known
	named   string // what a reply says: session, or one that came to nothing
	started bool
	began   time.Time     // when it started
	wall    time.Duration // how long the program ran, once that is known
	outcome backend.StopReason
	used    backend.Usage

	language string // once known
	settled  string // what became of the charge, empty for its release
}

func (c *call) owner() session.Owner { return ownerOf(c.principal) }

func ownerOf(p host.Principal) session.Owner {
	return session.Owner{Tenant: p.Org, User: p.User, KeyID: p.KeyID}
}

// Times of a run beside its own limits.
const (
	// startSlack is what starting, placing inputs and collecting may take.
	startSlack = 5 * time.Minute
	// settleTimeout bounds work that must outlive the request.
	settleTimeout = 30 * time.Second
	// attempts is how often a run is moved to another session because the one it
	// was to continue ended in the meantime.
	attempts = 3
)

// errVanished: the session that a run was to continue ended before it started.
var errVanished = errors.New("the session ended meanwhile")

// join takes a place in the queue.
func (i *Interpreter) join(org string) (*queue.Place, error) {
	p, err := i.queue.Join(org)
	if err != nil {
		return nil, asRefusal(err)
	}
	return p, nil
}

// run is the life of a run (docs/architecture.md), from the target on. Errors are
// *host.HTTPError, or ctx's own when the caller went away.
func (i *Interpreter) run(ctx context.Context, c *call) (res *CodeResult, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.life, cancel)()
	c.runID = rand.Text()
	defer func() {
		if c.charge != nil {
			c.charge.Release() // does nothing once debited
			i.settled(c)
		}
		c.place.Done() // what is left to do takes nobody's turn
		c.memory.Release()
	}()
	defer func() { i.ended(ctx, c, err) }()
	for range attempts {
		res, err := i.attempt(ctx, c)
		switch {
		case errors.Is(err, errVanished):
			// Others may have the turn of the session that comes next, and wait for a place.
			c.memory.Release()
			c.memory = nil
			c.place.Again()
			continue
		case err != nil && i.life.Err() != nil:
			return nil, asRefusal(queue.ErrClosed)
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", errCanceled, ctx.Err())
		case err != nil:
			return nil, asRefusal(err)
		}
		return res, nil
	}
	return nil, refuse(http.StatusServiceUnavailable, codeSandboxDown, "sessions end faster than runs begin; try again")
}

// attempt is one try to run in one session.
func (i *Interpreter) attempt(ctx context.Context, c *call) (result *CodeResult, err error) {
	f := i.finder(c.owner())
	f.foreign = c.foreign
	defer f.release()
	target, x, again, err := i.choose(ctx, f, c.in)
	if err != nil {
		return nil, err
	}
	defer target.Release()
	if c.session = again; x != nil {
		c.session = x.ID
	}
	o, err := i.order(ctx, c, target, c.session)
	if err != nil {
		return nil, err
	}
	c.language = o.language
	elsewhere := target.Info.Has(backend.CapShared) // a provider has machines of its own
	if c.program != nil {
		c.program.SetElsewhere(elsewhere)
	}
	if elsewhere {
		c.place.Elsewhere()
	} else {
		c.place.Need(o.spec.Limits.MemoryBytes)
		if c.program != nil {
			c.place.Lasts()
		}
	}
	if c.charge == nil {
		if err := i.reserve(ctx, c); err != nil {
			return nil, fmt.Errorf("reserve: %w", err)
		}
		if c.charge == nil {
			return nil, errors.New("reserve: the billing answered without a charge")
		}
		if err := i.name(c, target); err != nil {
			return nil, err
		}
		if c.admitted != nil {
			c.admitted()
		}
	}
	done, err := i.turn(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { done() }()

	fresh := x == nil
	sctx, phase := i.telemetry.Phase(ctx, telemetry.PhaseSession)
	defer func() { phase.End(err) }() // where it is not ended sooner
	switch {
	case fresh && again != "":
		if x, fresh, err = i.restore(sctx, c, f, target, again); err != nil {
			return nil, err
		}
	case fresh:
		s, err := i.host.Sessions().Create(sctx, c.owner(), target, c.options())
		if err != nil {
			return nil, err
		}
		x, c.session, c.named = f.add(s), s.ID, s.ID
		i.telemetry.SessionCreated(string(session.OriginExec))
		// Nobody else knows the session; the turn keeps the sweep out.
		if done, err = i.host.Sessions().Hold(ctx, s.ID); err != nil {
			done = func() {}
			i.discard(ctx, c, s)
			return nil, err
		}
	default:
		if err := x.open(sctx); err != nil {
			return nil, vanished(err)
		}
	}
	phase.End(nil)
	phase = telemetry.Span{}
	res, err := i.perform(ctx, c, f, o, x, fresh)
	if err != nil && !c.started && fresh {
		i.discard(ctx, c, x.Session)
		c.session = ""
	}
	if !fresh && !c.started {
		err = vanished(err)
	}
	return res, err
}

// name gives the run the session id of a reply that comes before there is a session:
// clients need one in each reply. A new one is as good as that of a session that
// vanished: whoever continues it gets a session of this id.
func (i *Interpreter) name(c *call, t session.Target) (err error) {
	if c.named = c.session; c.named == "" {
		keys := i.host.Keys()
		c.named, err = keys.NewSession(keys.Route(t.Config, t.Node))
	}
	return err
}

// options are those of a session that the run needs.
func (c *call) options() session.CreateOptions {
	return session.CreateOptions{Origin: session.OriginExec, Payer: string(c.principal.Payer)}
}

// restore makes the session again that the run names and that vanished, unless
// somebody else has done so. If that was another tenant, the run gets a new one at
// its next attempt.
func (i *Interpreter) restore(ctx context.Context, c *call, f *finder, t session.Target, id string) (x *finding, made bool, err error) {
	s, made, err := i.host.Sessions().Restore(ctx, c.owner(), t, id, c.options())
	if err != nil {
		if gone(err) {
			c.foreign = id
		}
		return nil, false, vanished(err)
	}
	return f.add(s), made, nil
}

// vanished turns proof that a session is gone into a reason to try again.
func vanished(err error) error {
	if gone(err) || backend.ProvesGone(err) {
		return errVanished
	}
	return err
}

// turn waits for the session's turn, if there is a session, and for room to run.
// The session's comes first: waiting for it takes nobody else's room.
func (i *Interpreter) turn(ctx context.Context, c *call) (release func(), err error) {
	ctx, phase := i.telemetry.Phase(ctx, telemetry.PhaseQueue)
	defer func() { phase.End(err) }()
	wait, cancel := context.WithTimeout(ctx, i.o.MaxWait)
	defer cancel()
	release = func() {}
	if c.session != "" {
		if release, err = i.host.Sessions().Hold(wait, c.session); err != nil {
			release = func() {}
		}
	}
	if err == nil {
		err = c.place.Wait(wait)
	}
	if err == nil {
		if c.program != nil && c.memory == nil {
			c.memory = c.place.Keep()
		}
		return release, nil
	}
	release()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = rateLimited("no room to run within "+i.o.MaxWait.String(), defaultRetry, err)
	}
	return nil, err
}

// discard ends a session in which nothing happened.
func (i *Interpreter) discard(ctx context.Context, c *call, s session.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := i.host.Sessions().Discard(ctx, s); err != nil {
		c.log.Warn("an unused session is left to its clocks", "session", s.ID, "error", err)
	}
}

// perform runs the order in x.
func (i *Interpreter) perform(ctx context.Context, c *call, f *finder, o order, x *finding, fresh bool) (*CodeResult, error) {
	in, err := i.resolve(ctx, f, c.in, x, fresh)
	if err != nil {
		return nil, err
	}
	o.spec.Ref, o.spec.Inputs, o.spec.Collect.Exclude = x.Sandbox.Ref, in.specs, unnoticed(in)
	rctx, cancel := c.bounded(ctx, o.spec.Limits.Wall)
	io := newLive(rctx, o.spec.Limits, in, func() error { return i.start(ctx, c, x, in) })
	io.watch = c.watch
	if c.program != nil {
		io.call = c.program.Call
	}
	defer func() {
		cancel() // first: it ends the reading of inputs, which close waits for
		io.close()
	}()
	rctx, phase := i.telemetry.Phase(rctx, telemetry.PhaseRun)
	res, err := x.Backend.Run(rctx, o.spec, io)
	phase.Text("caisson.stop", string(res.Stop))
	phase.End(err)

	began, refused := io.began()
	switch {
	case refused != nil:
		return nil, refused
	case !began && err == nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case !began && err == nil:
		return nil, fmt.Errorf("run %s ended before it started: %s %s", c.runID, res.Stop, res.Message)
	case !began:
		return nil, err
	case err != nil:
		// The program ran and its end is not known. It is paid for, and what it
		// said is all there is.
		c.log.Error("a run was lost", "run", c.runID, "request", c.principal.RequestID, "session", x.ID, "error", err)
		res = backend.RunResult{Stop: backend.StopLost, ExitCode: -1}
	}
	if res.Usage.Wall == 0 && (res.Stop == backend.StopLost || res.Stop == backend.StopCanceled) {
		res.Usage.Wall = i.o.Now().Sub(c.began) // nobody else knows
	}
	c.outcome, c.wall, c.used = res.Stop, res.Usage.Wall, res.Usage
	i.debit(ctx, c, res)
	warnings := append(o.warnings, i.review(ctx, o.request, x.ID, io, res)...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	in.unplaced(res.MissingInputs)
	out := i.report(x.ID, io, in, res)
	for _, w := range warnings {
		out.PolicyWarnings = append(out.PolicyWarnings, PolicyWarning(w))
	}
	return out, nil
}

// start is called right before the program's first instruction: from here on
// the run is paid for, even if this process ends.
func (i *Interpreter) start(ctx context.Context, c *call, x *finding, in *inputs) error {
	if s, ok := c.charge.(host.ChargeStarter); ok {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		sctx, phase := i.telemetry.Phase(sctx, telemetry.PhaseStarted)
		err := s.Started(sctx, c.usage())
		phase.End(err)
		if err != nil {
			return fmt.Errorf("record the start: %w", errors.Join(host.ErrUnavailable, err))
		}
	}
	c.started, c.began = true, i.o.Now()
	if c.watch != nil {
		c.watch.Started(c.session)
	}
	i.host.Sessions().MarkUsed(x.ID)
	for _, f := range in.found {
		i.host.Sessions().MarkUsed(f.source)
	}
	return nil
}

func (c *call) usage() host.Usage {
	return host.Usage{
		RunID: c.runID, Org: c.principal.Org, User: c.principal.User, Project: c.principal.Project,
		Session: c.session, RequestID: c.principal.RequestID, Act: host.ActRun, Cents: c.cents,
	}
}

// debit charges a run that started, whatever came of it or of its caller.
func (i *Interpreter) debit(ctx context.Context, c *call, res backend.RunResult) {
	u := c.usage()
	u.Wall, u.CPU, u.Fuel, u.PeakMemory = res.Usage.Wall, res.Usage.CPU, res.Usage.Fuel, res.Usage.PeakMemoryBytes
	u.BytesIn, u.BytesOut = res.Usage.BytesIn, res.Usage.BytesOut
	u.Outcome, u.ExitCode = string(res.Stop), res.ExitCode
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	ctx, phase := i.telemetry.Phase(ctx, telemetry.PhaseDebit)
	err := c.charge.Debit(ctx, u)
	phase.End(err)
	c.settled = telemetry.ChargeDebited
	if err != nil {
		c.settled = telemetry.ChargeFailed
		c.log.Error("a run could not be debited", "run", c.runID, "request", u.RequestID, "org", u.Org, "cents", u.Cents, "error", err)
	}
}
