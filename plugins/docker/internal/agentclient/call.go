package agentclient

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// exchange makes one request and waits for its answer. each gets what comes before it.
func exchange(ctx context.Context, conn *agentwire.Conn, op agentwire.Op, request, answer agentwire.Message, each func(agentwire.Item) error) error {
	st, err := conn.Open(ctx, op, request)
	if err != nil {
		return err
	}
	return await(ctx, st, answer, each)
}

// await waits for the answer to a request.
func await(ctx context.Context, st *agentwire.Stream, answer agentwire.Message, each func(agentwire.Item) error) error {
	for {
		it, err := st.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return st.Answer(answer)
		}
		if err == nil {
			if each == nil {
				err = errUnexpected(it)
			} else {
				err = each(it)
			}
		}
		if err != nil {
			st.Leave()
			return err
		}
	}
}

func errUnexpected(it agentwire.Item) error {
	return backend.Errorf(backend.KindInternal, "", "the agent sent something of channel %d that was not asked for", it.Channel)
}

func (c *Client) call(ctx context.Context, op string, code agentwire.Op, request, answer agentwire.Message, each func(agentwire.Item) error) error {
	st, err := c.open(ctx, code, request)
	if err == nil {
		err = await(ctx, st, answer, each)
	}
	return convert(ctx, op, err)
}

// open begins a request. A connection that turns out to be broken when it is written to
// is made again: nobody has seen the request yet.
func (c *Client) open(ctx context.Context, code agentwire.Op, request agentwire.Message) (*agentwire.Stream, error) {
	for again := false; ; again = true {
		conn, err := c.connect(ctx, false)
		if err != nil {
			return nil, err
		}
		st, err := conn.Open(ctx, code, request)
		if err == nil || again || conn.Err() == nil {
			return st, err
		}
	}
}

// convert makes an error of sdk/backend of what went wrong in a call.
func convert(ctx context.Context, op string, err error) error {
	var fault *agentwire.Fault
	var known *backend.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.As(err, &fault) && fault.Kind == "canceled" || errors.Is(err, context.Cause(ctx))):
		return ctx.Err()
	case errors.As(err, &fault):
		kind := backend.Kind(fault.Kind)
		if !slices.Contains(backend.Kinds(), kind) {
			kind = backend.KindInternal
		}
		subject := backend.Subject(fault.Subject)
		if !slices.Contains([]backend.Subject{backend.SubjectFile, backend.SubjectRun, backend.SubjectTerminal}, subject) {
			subject = "" // it knows nothing else
		}
		return &backend.Error{Kind: kind, Op: op, Subject: subject, Plane: backend.PlaneData, Message: fault.Text}
	case errors.As(err, &known):
		e := *known
		e.Op, e.Plane = op, backend.PlaneData
		return &e
	case errors.Is(err, ErrLost):
	default:
		err = errors.Join(ErrLost, err)
	}
	e := backend.Errorf(backend.KindUnavailable, op, "%w", err)
	e.Plane = backend.PlaneData
	return e
}
