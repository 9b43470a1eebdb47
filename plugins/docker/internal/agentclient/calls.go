package agentclient

import (
	"context"
	"fmt"
	"sync"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// answering answers the calls of a run. The agent is not believed: it can ask for no
// more than a program may.
type answering struct {
	live backend.RunIO
	st   *agentwire.Stream
	// stop ends the run: nobody answers any more, or the agent breaks the rules.
	stop func()

	sending sync.Mutex
	calls   sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelFunc
	held int // bytes of inputs
}

// answer begins to answer the calls of a run that has started, until end.
func (r *following) answer() error {
	ctx, cancel := context.WithCancel(r.ctx)
	st, err := r.c.open(ctx, agentwire.OpControl, &agentwire.Name{Name: r.id})
	if err != nil {
		cancel()
		return err
	}
	run := r.st
	a := &answering{live: r.live, st: st, open: make(map[string]context.CancelFunc), stop: func() {
		_ = run.Cancel(context.WithoutCancel(ctx))
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.serve(ctx)
	}()
	r.answered = func() {
		cancel()
		<-done
	}
	return nil
}

// serve receives calls until the stream or ctx ends, and waits for what answers them.
func (a *answering) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer a.calls.Wait()
	defer cancel()
	defer a.st.Leave()
	for {
		it, err := a.st.Recv(ctx)
		if err != nil {
			return // the run's own stream says how it ended
		}
		if a.take(ctx, it) != nil {
			a.stop()
			return
		}
	}
}

// take begins a call, or ends one that is withdrawn.
func (a *answering) take(ctx context.Context, it agentwire.Item) error {
	var m agentwire.Call
	if it.Channel != agentwire.ChanCall || !it.Message {
		return errUnexpected(it)
	}
	if err := agentwire.Decode(it.Data, &m); err != nil {
		return err
	}
	a.mu.Lock()
	withdraw, known := a.open[m.ID]
	tooMuch := len(a.open) >= control.MaxOpen || m.Size > control.MaxValue || a.held+m.Size > control.MaxHeld+control.MaxFrame
	a.mu.Unlock()
	switch {
	case m.Withdrawn && known:
		withdraw()
		return nil
	case m.Withdrawn:
		return nil // it was answered meanwhile
	case known || tooMuch || control.Call{ID: m.ID, Name: m.Name}.Check() != nil:
		return fmt.Errorf("%w: a call that no program may make", agentwire.ErrProtocol)
	}
	input, err := a.st.RecvContent(ctx, m.Size)
	if err != nil {
		return err
	}
	call, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	a.open[m.ID] = cancel
	a.held += len(input)
	a.mu.Unlock()
	a.calls.Go(func() {
		defer cancel()
		a.call(ctx, call, backend.ControlCall{ID: m.ID, Name: m.Name, Input: input})
	})
	return nil
}

// call has one call of a run answered; each has a context.
func (a *answering) call(run, ctx context.Context, call backend.ControlCall) {
	reply, err := a.live.Call(ctx, call)
	a.mu.Lock()
	delete(a.open, call.ID)
	a.held -= len(call.Input)
	a.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			a.stop()
			return
		}
		if run.Err() != nil {
			return // a program that is being stopped is told nothing more
		}
		reply = backend.ControlReply{Error: "the call was withdrawn"} // the agent waits for that
	}
	reply = reply.Bounded()
	m, content := &agentwire.Reply{ID: call.ID}, reply.Result
	if reply.Error != "" {
		m.Error, content = true, []byte(reply.Error)
	}
	m.Size = len(content)
	a.sending.Lock()
	defer a.sending.Unlock()
	// Not the call's context: half an answer would end the connection for all.
	// When it fails the stream has ended, and with it the run.
	_ = a.st.SendWith(context.WithoutCancel(ctx), agentwire.ChanReply, m, content)
}
