package agentclient

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// inlineRun is how much content of a run's inputs goes into its request.
const inlineRun = 1 << 20

// Run is backend.Backend.Run. A connection that breaks while the program runs is made
// again and the run taken over, nothing lost; when that fails the result is
// backend.StopLost.
func (c *Client) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	const op = "Run"
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	m := c.wireRun(&spec, agentwire.Foreground)
	if spec.Control {
		// Its calls are answered over this connection; without it the run ends.
		m.Control, m.Beside, m.Rejoin = true, c.beside(spec.Limits), 0
	}
	r, err := c.begin(ctx, m, &spec, live)
	if err != nil {
		return backend.RunResult{}, convert(ctx, op, err)
	}
	defer r.end()
	res, err := r.follow()
	return res, r.explain(op, err)
}

// StartRun is backend.DetachedRunner.StartRun.
func (c *Client) StartRun(ctx context.Context, start backend.DetachedStart, live backend.RunIO) error {
	const op = "StartRun"
	spec := start.RunSpec
	if err := spec.Check(); err != nil {
		return err
	}
	if spec.Control {
		return backend.Errorf(backend.KindUnsupported, op, "control: nobody answers the calls of a detached run")
	}
	m := c.wireRun(&spec, agentwire.Detached)
	m.TTL = start.TTL
	r, err := c.begin(ctx, m, &spec, live)
	if err != nil {
		return convert(ctx, op, err)
	}
	defer r.end()
	err = r.untilStarted()
	if err == nil {
		if err = live.Started(); err == nil {
			return nil
		}
		_ = c.KillRun(context.WithoutCancel(ctx), spec.RunID)
		return err
	}
	return r.explain(op, err)
}

// AttachRun is backend.DetachedRunner.AttachRun.
func (c *Client) AttachRun(ctx context.Context, runID string, live backend.RunIO) (backend.RunResult, error) {
	const op = "AttachRun"
	st, err := c.open(ctx, agentwire.OpAttach, &agentwire.Attach{RunID: runID})
	if err != nil {
		return backend.RunResult{}, convert(ctx, op, err)
	}
	r := &following{c: c, ctx: ctx, st: st, live: live, id: runID, attached: true, started: true}
	defer r.end()
	res, err := r.follow()
	return res, r.explain(op, err)
}

// KillRun is backend.DetachedRunner.KillRun.
func (c *Client) KillRun(ctx context.Context, runID string) error {
	return c.call(ctx, "KillRun", agentwire.OpKill, &agentwire.Name{Name: runID}, &agentwire.Empty{}, nil)
}

// wireRun is a spec on the wire.
func (c *Client) wireRun(spec *backend.RunSpec, manner agentwire.Manner) *agentwire.Run {
	m := &agentwire.Run{
		RunID: spec.RunID, Manner: manner, File: spec.Program.File, Source: spec.Program.Source,
		Env: c.env(spec.Env), Dir: spec.Dir, Stdin: spec.Stdin, Limits: c.limits(spec.Limits), Collect: spec.Collect,
		Rejoin: max(0, c.opts.Rejoin),
	}
	room := inlineRun
	if len(m.Source) > room {
		m.Source, m.Follows = nil, true
	}
	room -= len(m.Source)
	for _, s := range spec.Steps {
		m.Steps = append(m.Steps, agentwire.Step{Argv: s.Argv, Args: s.Args})
	}
	for _, in := range spec.Inputs {
		w := agentwire.Input{Path: in.Path, Optional: in.Optional}
		if in.CopyFrom != nil {
			w.SHA256 = in.CopyFrom.SHA256
		}
		if in.Inline != nil && len(in.Inline) <= room {
			w.Inline, w.Data = true, in.Inline
			room -= len(in.Inline)
		}
		m.Inputs = append(m.Inputs, w)
	}
	return m
}

func (c *Client) env(add map[string]string) []agentwire.Pair {
	merged := maps.Clone(c.opts.Env)
	if merged == nil {
		merged = make(map[string]string, len(add))
	}
	maps.Copy(merged, add)
	pairs := make([]agentwire.Pair, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		pairs = append(pairs, agentwire.Pair{Name: name, Value: merged[name]})
	}
	return pairs
}

func (c *Client) limits(l backend.Limits) agentwire.Limits {
	l = generic.FillLimits(l, c.opts.Limits)
	return agentwire.Limits{
		Wall: l.Wall, CPU: l.CPU, MemoryBytes: l.MemoryBytes, Processes: l.Processes,
		StdoutBytes: l.StdoutBytes, StderrBytes: l.StderrBytes, DiskBytes: l.DiskBytes, DiskFiles: l.DiskFiles,
	}
}

// beside is how much a program may compute beside open calls.
func (c *Client) beside(l backend.Limits) time.Duration {
	l = generic.FillLimits(l, c.opts.Limits)
	l.Wall = cmp.Or(l.Wall, agentwire.DefaultWall)
	return generic.BesideLimit(l)
}

// begin opens the stream of a run and starts to feed it.
func (c *Client) begin(ctx context.Context, m *agentwire.Run, spec *backend.RunSpec, live backend.RunIO) (*following, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st, err := c.open(ctx, agentwire.OpRun, m)
	if err != nil {
		return nil, err
	}
	r := &following{c: c, ctx: ctx, st: st, live: live, id: spec.RunID, rejoin: m.Manner == agentwire.Foreground && !m.Control && c.opts.Rejoin >= 0, control: m.Control}
	feed := &feeder{c: c, st: st, live: live, inputs: spec.Inputs, wire: m.Inputs, stdin: spec.Stdin}
	if m.Follows {
		feed.source = spec.Program.Source
	}
	r.feed = feed
	feedCtx, stop := context.WithCancel(ctx)
	r.stop = stop
	go feed.run(feedCtx)
	return r, nil
}

// following is a run whose output and end are awaited.
type following struct {
	c    *Client
	ctx  context.Context
	st   *agentwire.Stream
	live backend.RunIO
	id   string
	feed *feeder
	stop func()

	// attached runs are left alone when the caller leaves.
	attached bool
	rejoin   bool
	control  bool   // the program may make calls
	answered func() // ends answering them; nil before
	lost     error  // why it was taken over, on another connection
	started  bool
	offset   int64 // of output that was passed on or dropped
	listener error // of the first call of live that failed
	res      backend.RunResult
	entries  collectEntries
}

func (r *following) end() {
	r.st.Leave()
	if r.answered != nil {
		r.answered()
	}
	if r.stop != nil {
		r.stop()
	}
}

// follow passes on what a run says until it ends.
func (r *following) follow() (backend.RunResult, error) {
	r.entries.valid = func(e *backend.Entry) bool { return e.Type == backend.EntryFile }
	for {
		exit, err := r.once()
		var fault *agentwire.Fault
		switch {
		case err == nil:
			return r.result(exit), nil
		case r.lost != nil && errors.As(err, &fault) && fault.Kind == string(backend.KindNotFound):
			// The agent that answers now has never known it.
			if r.started {
				return lostRun, nil
			}
			return backend.RunResult{}, r.lost
		case r.attached || !isLost(err):
			return backend.RunResult{}, err
		}
		if err := r.takeOver(err); err != nil {
			if r.started {
				return lostRun, nil
			}
			return backend.RunResult{}, err
		}
	}
}

// lostRun is the result of a run whose end nobody saw.
var lostRun = backend.RunResult{Stop: backend.StopLost, ExitCode: -1, Message: "the connection to the sandbox was lost"}

// isLost reports whether an error is the connection's.
func isLost(err error) bool {
	var fault *agentwire.Fault
	var known *backend.Error
	return !errors.As(err, &fault) && !errors.As(err, &known)
}

// once follows on one connection. When ctx ends, the run does, and is followed to
// its end; an attached one is left.
func (r *following) once() (*agentwire.Exit, error) {
	st := r.st
	receive := r.ctx
	if !r.attached {
		receive = context.WithoutCancel(r.ctx)
		defer context.AfterFunc(r.ctx, func() { _ = st.Cancel(receive) })()
	}
	for {
		it, err := st.Recv(receive)
		if errors.Is(err, io.EOF) {
			exit := new(agentwire.Exit)
			return exit, st.Answer(exit)
		}
		if err != nil {
			return nil, err
		}
		if err := r.take(it); err != nil {
			if r.attached {
				return nil, err
			}
			if r.listener == nil { // the agent's fault
				st.Leave()
				return nil, err
			}
			_ = st.Cancel(receive)
		}
	}
}

// take passes on one item. An error of a listener is kept in r.listener.
func (r *following) take(it agentwire.Item) error {
	pass := func(fn func() error) error {
		if r.listener != nil {
			return nil // nobody listens: dropped
		}
		r.listener = fn()
		return r.listener
	}
	switch {
	case it.Channel == agentwire.ChanStarted && it.Message:
		if r.started {
			return nil
		}
		r.started = true
		if err := pass(r.live.Started); err != nil || !r.control {
			return err
		}
		return r.answer()
	case it.Channel == agentwire.ChanStdout && !it.Message && r.started:
		r.offset += int64(len(it.Data))
		return pass(func() error { return r.live.Stdout(it.Data) })
	case it.Channel == agentwire.ChanStderr && !it.Message && r.started:
		r.offset += int64(len(it.Data))
		return pass(func() error { return r.live.Stderr(it.Data) })
	case it.Channel == agentwire.ChanEntries:
		return r.entries.item(it)
	case it.Channel == agentwire.ChanDeleted && it.Message:
		var m agentwire.Names
		if err := agentwire.Decode(it.Data, &m); err != nil {
			return err
		}
		if r.res.Deleted = append(r.res.Deleted, m.Names...); len(r.res.Deleted) > maxListed {
			return backend.Errorf(backend.KindInternal, "", "the agent reports more than %d deleted files", maxListed)
		}
		return nil
	}
	return errUnexpected(it)
}

// takeOver dials again and goes on with the run where it was left.
func (r *following) takeOver(cause error) error {
	if !r.rejoin || r.ctx.Err() != nil || r.feed != nil && !r.feed.done() {
		return cause
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.c.opts.Rejoin)
	defer cancel()
	if _, err := r.c.connect(ctx, true); err != nil {
		return errors.Join(cause, err)
	}
	st, err := r.c.open(ctx, agentwire.OpAttach, &agentwire.Attach{RunID: r.id, Offset: r.offset, Takeover: true, Rejoin: r.c.opts.Rejoin})
	if err != nil {
		return errors.Join(cause, err)
	}
	r.st, r.lost = st, cause
	r.res.Deleted, r.entries.list = nil, nil // they come again
	return nil
}

// untilStarted waits until the program of a detached run runs.
func (r *following) untilStarted() error {
	for {
		it, err := r.st.Recv(r.ctx)
		switch {
		case errors.Is(err, io.EOF):
			if err := r.st.Answer(new(agentwire.Exit)); err != nil {
				return err
			}
			return errors.New("the run ended without a start")
		case err != nil:
			return err
		case it.Channel == agentwire.ChanStarted:
			return nil
		}
	}
}

// result completes the result with what the agent said at the end.
func (r *following) result(e *agentwire.Exit) backend.RunResult {
	res := r.res
	res.Stop, res.ExitCode, res.Signal, res.Step, res.Message = backend.StopReason(e.Stop), e.ExitCode, e.Signal, e.Step, e.Message
	res.StdoutBytes, res.StderrBytes = e.StdoutBytes, e.StderrBytes
	res.StdoutTruncated, res.StderrTruncated = e.StdoutTruncated, e.StderrTruncated
	res.Changed = r.entries.list
	res.Skipped, res.CollectFailed, res.MissingInputs = e.Skipped, e.CollectFailed, e.MissingInputs
	res.Usage = backend.Usage{
		Wall: e.Wall, CPU: e.CPU, PeakMemoryBytes: e.PeakMemoryBytes, BytesIn: e.BytesIn, BytesOut: e.BytesOut,
	}
	return res
}

// explain converts the error of a run: where the host could not provide what it was to
// send, that is why.
func (r *following) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if r.feed != nil && r.ctx.Err() == nil {
		if cause := r.feed.failure(); cause != nil {
			return cause
		}
	}
	if r.attached && r.listener != nil {
		return r.listener
	}
	return convert(r.ctx, op, err)
}
