package exec

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// endless is a program that goes on for long, and runs reports whether it has begun.
func endless(t *testing.T) (code string, runs func() bool) {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	return "touch " + begun + "; sleep 60", func() bool { _, err := os.Stat(begun); return err == nil }
}

// A caller who gives up stops the program, by a notice or by hanging up.
func TestMCPCancel(t *testing.T) {
	for _, version := range protocols {
		t.Run("protocol "+version, func(t *testing.T) {
			r := newMCP(t)
			s := r.connect(alice, version)
			code, runs := endless(t)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "run_code", Arguments: obj{"language": "bash", "code": code}})
				failed <- err
			}()
			r.await("the program runs", runs)
			cancel()
			if err := <-failed; err == nil {
				t.Error("the call succeeded")
			}
			r.await("the run has ended", func() bool { return len(r.usage()) == 1 })
		})
	}
}

// Hanging up is giving up too: a result could not be delivered any more.
func TestMCPHangUp(t *testing.T) {
	r := newMCP(t)
	s := r.connect(alice, "2025-06-18")
	code, runs := endless(t)
	ctx, cancel := context.WithCancel(t.Context())
	q := r.request("POST", alice, mcp.Path, strings.NewReader(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_code","arguments":{"language":"bash","code":"`+code+`"}}}`))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	q.Header.Set("Mcp-Session-Id", s.ID())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := r.server.Client().Do(q.WithContext(ctx)); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	r.await("the program runs", runs)
	cancel()
	<-ended
	r.await("the run has ended", func() bool { return len(r.usage()) == 1 })
	if run, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": "echo on"}); run.Stdout != "on\n" {
		t.Errorf("the session afterwards: %+v, %s", run, fault)
	}
}

// Closing ends listeners at once, lets calls go on for a while and then stops them.
func TestMCPClose(t *testing.T) {
	r := newMCP(t)
	s := r.connect(alice, "2025-11-25")
	code, runs := endless(t)
	listening := r.request("GET", alice, mcp.Path, nil)
	listening.Header.Set("Accept", "text/event-stream")
	listening.Header.Set("Mcp-Session-Id", r.connect(alice, "2025-11-25").ID())
	ended := make(chan error, 2)
	go func() {
		res, err := r.server.Client().Do(listening)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		ended <- err
	}()
	go func() {
		_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_code", Arguments: obj{"language": "bash", "code": code}})
		ended <- err
	}()
	r.await("the program runs", runs)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.closers[len(r.closers)-1](ctx); err != nil {
		t.Error(err)
	}
	for range 2 {
		<-ended
	}
	r.await("the run has ended", func() bool { return len(r.usage()) == 1 })
	q := r.request("POST", alice, mcp.Path, strings.NewReader(initialize))
	if a := r.do(q); a.status != 503 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}
