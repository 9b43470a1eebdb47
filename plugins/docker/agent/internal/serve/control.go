//go:build linux

package serve

import (
	"context"
	"errors"
	"strings"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// control serves the calls of a run until it ends. When whoever answers them leaves, the
// run ends.
func (s *Server) control(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Name
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	j := s.Host.Job(m.Name)
	if j == nil || j.Calls() == nil {
		return fault(&agentwire.Fault{Kind: "not_found", Subject: "run", Text: "there is no run of this id that makes calls"})
	}
	calls := j.Calls()
	if !calls.Attach() {
		return fault(&agentwire.Fault{Kind: "conflict", Subject: "run", Text: "the calls of this run are served already"})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(receiveReplies(ctx, st, calls)) }()
	for {
		select {
		case out := <-calls.Out():
			if err := st.SendWith(ctx, agentwire.ChanCall, &out.Call, out.Input); err != nil {
				j.Cancel("calls could not be passed on")
				return fault(err)
			}
		case <-calls.Gone():
			return done(nil)
		case <-ctx.Done():
			j.Cancel("nobody answers calls any more")
			return fault(context.Cause(ctx))
		}
	}
}

// receiveReplies passes answers on until the stream ends, and says why it did.
func receiveReplies(ctx context.Context, st *agentwire.Stream, calls *work.Calls) error {
	for {
		var m agentwire.Reply
		if err := st.RecvMessage(ctx, agentwire.ChanReply, &m); err != nil {
			return err
		}
		if m.Size > control.MaxValue {
			return invalid(errors.New("an answer that is too long"))
		}
		content, err := st.RecvContent(ctx, m.Size)
		if err != nil {
			return err
		}
		reply := control.Reply{Result: content}
		if m.Error {
			reply = control.Reply{Error: strings.ToValidUTF8(string(content), "\ufffd")}
		}
		calls.Answer(m.ID, reply)
	}
}
