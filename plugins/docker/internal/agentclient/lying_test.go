package agentclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// liar dials an agent of the test's own: it begins every run, ends it when it is told
// to, and serves calls, or ports, as it pleases.
func liar(t *testing.T, calls func(ctx context.Context, st *agentwire.Stream)) agentclient.Dialer {
	return func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() {
			hello := agentwire.Preamble{Protocol: agentwire.Protocol, Build: strings.Repeat("0", 64)}
			if _, err := theirs.Write(hello.Append(nil)); err != nil {
				return
			}
			if _, err := agentwire.ReadPreamble(theirs); err != nil {
				return
			}
			conn := agentwire.NewServer(theirs, func(st *agentwire.Stream) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					select {
					case <-st.Canceled():
						cancel()
					case <-ctx.Done():
					}
				}()
				switch st.Op() {
				case agentwire.OpStatus:
					st.End(agentwire.Answer(&agentwire.Status{}, nil))
				case agentwire.OpRun:
					if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Empty{}); err == nil {
						<-ctx.Done()
					}
					st.End(agentwire.Answer(&agentwire.Exit{Stop: "canceled", ExitCode: -1, Wall: 1}, nil))
				case agentwire.OpControl:
					calls(ctx, st)
					<-ctx.Done()
					st.End(agentwire.Answer(&agentwire.Empty{}, nil))
				case agentwire.OpDial:
					if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Empty{}); err == nil {
						calls(ctx, st)
					}
					st.End(agentwire.Answer(&agentwire.Empty{}, nil))
				}
			})
			t.Cleanup(func() { _ = conn.Close() })
		}()
		return ours, nil
	}
}

// TestLyingAgent: calls that no program may make end the run, and cost nothing.
func TestLyingAgent(t *testing.T) {
	call := func(m agentwire.Call) func(context.Context, *agentwire.Stream) {
		return func(ctx context.Context, st *agentwire.Stream) { _ = st.SendMessage(ctx, agentwire.ChanCall, &m) }
	}
	for name, calls := range map[string]func(context.Context, *agentwire.Stream){
		"a size below zero": call(agentwire.Call{ID: "1", Name: "n", Size: -1}),
		"too large":         call(agentwire.Call{ID: "1", Name: "n", Size: control.MaxValue + 1}),
		"no id":             call(agentwire.Call{Name: "n"}),
		"no name":           call(agentwire.Call{ID: "1"}),
		"an endless name":   call(agentwire.Call{ID: "1", Name: strings.Repeat("n", control.MaxName+1)}),
		"something else":    func(ctx context.Context, st *agentwire.Stream) { _ = st.Send(ctx, agentwire.ChanStdout, []byte("x")) },
		"more content than was said": func(ctx context.Context, st *agentwire.Stream) {
			_ = st.SendWith(ctx, agentwire.ChanCall, &agentwire.Call{ID: "1", Name: "n", Size: 1}, []byte("xx"))
		},
		"two calls of one id": func(ctx context.Context, st *agentwire.Stream) { open(ctx, st, "1", "1") },
		"more than may be open": func(ctx context.Context, st *agentwire.Stream) {
			for i := range control.MaxOpen + 1 {
				open(ctx, st, fmt.Sprint(i))
			}
		},
		"more than may be held": func(ctx context.Context, st *agentwire.Stream) {
			for i := range 2 * control.MaxHeld / control.MaxValue {
				content := make([]byte, control.MaxValue)
				if st.SendWith(ctx, agentwire.ChanCall, &agentwire.Call{ID: fmt.Sprint(i), Name: "n", Size: len(content)}, content) != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := agentclient.Open(t.Context(), liar(t, calls), agentclient.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var now atomic.Int64
			h := &calling{&heard{}, func(ctx context.Context, _ backend.ControlCall) (backend.ControlReply, error) {
				now.Add(1)
				defer now.Add(-1)
				<-ctx.Done()
				return backend.ControlReply{}, ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			res, err := c.Run(ctx, callScript("true"), h)
			if ctx.Err() != nil || err == nil && res.Stop != backend.StopCanceled || now.Load() != 0 {
				t.Errorf("%+v, %v, %d calls are open", res, err, now.Load())
			}
		})
	}
}

// open begins calls that nobody answers.
func open(ctx context.Context, st *agentwire.Stream, ids ...string) {
	for _, id := range ids {
		_ = st.SendMessage(ctx, agentwire.ChanCall, &agentwire.Call{ID: id, Name: "n"})
	}
}
