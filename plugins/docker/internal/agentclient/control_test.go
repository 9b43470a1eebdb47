package agentclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// calling is a RunIO that answers calls.
type calling struct {
	*heard
	answer func(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error)
}

func (c *calling) Call(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error) {
	return c.answer(ctx, call)
}

// callScript is a run of a shell script that makes calls.
func callScript(text string) backend.RunSpec {
	spec := script(text)
	spec.Control = true
	return spec
}

// TestCallCommand: the command of shells, in substitutions, pipelines and background jobs.
func TestCallCommand(t *testing.T) {
	b, c := sandbox(t, options{})
	spec := callScript(`
echo "one $("$CAISSON_CALL" square '{"n":3}')"
for i in 1 2 3 4 5 6 7 8; do "$CAISSON_CALL" square "{\"n\":$i}" > /tmp/$i & done; wait
cat /tmp/1 /tmp/8
"$CAISSON_CALL" big | wc -c
"$CAISSON_CALL" fail 2>&1; echo "status $?"
"$CAISSON_CALL" square '{"n":' 2>/dev/null; echo "status $?"
"$CAISSON_CALL" echo | tr a-z A-Z
ls -l "$CAISSON_CONTROL" | cut -c1-10; ls -ld "$(dirname "$CAISSON_CONTROL")" | cut -c1-10
`)
	var calls atomic.Int64
	h := &calling{&heard{}, func(_ context.Context, call backend.ControlCall) (backend.ControlReply, error) {
		calls.Add(1)
		switch call.Name {
		case "big":
			return backend.ControlReply{Result: []byte(`"` + strings.Repeat("x", control.MaxValue-2) + `"`)}, nil
		case "fail":
			return backend.ControlReply{Error: "not today"}, nil
		case "echo":
			return backend.ControlReply{Result: []byte(`"` + string(call.Input) + ` done"`)}, nil
		}
		var in struct{ N int }
		err := json.Unmarshal(call.Input, &in)
		return backend.ControlReply{Result: fmt.Appendf(nil, "%d", in.N*in.N)}, err
	}}
	res, err := c.Run(t.Context(), spec, h)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v, stderr %q", res, err, h.stderr.String())
	}
	want := fmt.Sprintf("one 9\n1\n64\n%d\nnot today\nstatus 1\nstatus 1\n\"{} DONE\"\nsrw-------\ndrwx------\n", control.MaxValue+1)
	if got := h.stdout.String(); got != want || calls.Load() != 12 {
		t.Errorf("%d calls, stdout %q, want %q, stderr %q", calls.Load(), got, want, h.stderr.String())
	}
	if out, _ := b.exec(t, "0:0", "sh", "-c", "ls /.caisson/run | wc -l"); strings.TrimSpace(out) != "0" {
		t.Errorf("directories of the run are left: %s", out)
	}
	goesOn(t, c)
}

// waiting runs a script that calls and is never answered; then is called when it waits.
func waiting(t *testing.T, ctx context.Context, run func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error), text string, then func()) (backend.RunResult, error) {
	t.Helper()
	var open atomic.Int64
	h := &calling{&heard{}, func(ctx context.Context, _ backend.ControlCall) (backend.ControlReply, error) {
		open.Add(1)
		defer open.Add(-1)
		then()
		<-ctx.Done()
		return backend.ControlReply{}, ctx.Err()
	}}
	res, err := run(ctx, callScript(text), h)
	if n := open.Load(); n > 0 {
		t.Errorf("%d calls are open after the run", n)
	}
	return res, err
}

// TestCancelWhileSuspended: nothing is left of a run that ends while it waits.
func TestCancelWhileSuspended(t *testing.T) {
	b, c := sandbox(t, options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := waiting(t, ctx, c.Run, `trap '' TERM; sleep 1000 & "$CAISSON_CALL" never; echo on; sleep 1000`, cancel)
	if err != nil || res.Stop != backend.StopCanceled {
		t.Errorf("%+v, %v", res, err)
	}
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	goesOn(t, c)
}

// TestCancelSaysNothing: to a program that is being stopped its call is not answered.
func TestCancelSaysNothing(t *testing.T) {
	_, c := sandbox(t, options{})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		h := &calling{&heard{}, func(ctx context.Context, _ backend.ControlCall) (backend.ControlReply, error) {
			cancel()
			<-ctx.Done()
			return backend.ControlReply{}, ctx.Err()
		}}
		res, err := c.Run(ctx, callScript(`"$CAISSON_CALL" never; sleep 1000`), h)
		cancel()
		if err != nil || res.Stop != backend.StopCanceled {
			t.Errorf("%+v, %v", res, err)
		}
		if got := h.stdout.String() + h.stderr.String(); strings.Contains(got, "withdrawn") {
			t.Fatalf("it was answered: %q", got)
		}
	}
}

// TestDisconnectWhileSuspended: nobody can answer any more, so the run ends.
func TestDisconnectWhileSuspended(t *testing.T) {
	b := newBox(t, options{})
	c := b.open(t)
	res, err := waiting(t, t.Context(), c.Run, `sleep 1000 & "$CAISSON_CALL" never; sleep 1000`, func() { go c.Close() })
	if err == nil && res.Stop != backend.StopLost {
		t.Errorf("%+v", res)
	}
	if !eventually(func() bool { return b.left(t) == "" }) {
		t.Fatalf("left:\n%s", b.left(t))
	}
	c = b.open(t)
	goesOn(t, c)
}

// TestChannelIsPrivate: who runs beside a run cannot use its channel.
func TestChannelIsPrivate(t *testing.T) {
	_, c := sandbox(t, options{})
	var out backend.ExecResult
	var execErr error
	said := make(chan string, 1) // output comes on another stream than calls
	h := &calling{heard: &heard{onOut: func(all string) error {
		if strings.HasSuffix(all, "\n") {
			said <- strings.TrimSpace(all)
		}
		return nil
	}}}
	h.answer = func(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error) {
		if call.Name != "mine" {
			t.Errorf("a call %q arrived", call.Name)
		}
		out, execErr = c.Exec(ctx, backend.ExecRequest{Ref: ref(), Argv: []string{"python3", "-c", `
import os, socket, sys
path = sys.argv[1]
for p in (path, os.path.dirname(path)):
    try:
        print(os.listdir(p) if os.path.isdir(p) else socket.socket(socket.AF_UNIX).connect(p))
    except OSError as e:
        print(type(e).__name__)
try:
    socket.socket(socket.AF_UNIX).connect(path)
    print("connected")
except OSError as e:
    print(type(e).__name__)
`, <-said}})
		return backend.ControlReply{Result: []byte("1")}, nil
	}
	res, err := c.Run(t.Context(), callScript(`echo $CAISSON_CONTROL; "$CAISSON_CALL" mine`), h)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v, stderr %q", res, err, h.stderr.String())
	}
	if execErr != nil || string(out.Stdout) != "PermissionError\nNotADirectoryError\nPermissionError\n" && string(out.Stdout) != "PermissionError\nPermissionError\nPermissionError\n" {
		t.Errorf("another user of the sandbox sees %q %q, %v", out.Stdout, out.Stderr, execErr)
	}
}

// TestUnreadStdinHoldsUpNoAnswer: answers come on a stream of their own.
func TestUnreadStdinHoldsUpNoAnswer(t *testing.T) {
	_, c := sandbox(t, options{})
	spec := callScript(`"$CAISSON_CALL" first; "$CAISSON_CALL" second; wc -c`)
	spec.Stdin = true
	const size = 2 << 20
	h := &calling{&heard{stdin: strings.NewReader(strings.Repeat("x", size))}, func(_ context.Context, call backend.ControlCall) (backend.ControlReply, error) {
		return backend.ControlReply{Result: []byte(`"` + call.Name + `"`)}, nil
	}}
	res, err := c.Run(t.Context(), spec, h)
	if want := fmt.Sprintf("\"first\"\n\"second\"\n%d\n", size); err != nil || res.ExitCode != 0 || h.stdout.String() != want {
		t.Errorf("%+v, %v, stdout %q, stderr %q", res, err, h.stdout.String(), h.stderr.String())
	}
}

// TestManySuspended: rounds of calls, many at a time, cost the agent nothing that stays.
func TestManySuspended(t *testing.T) {
	_, c := sandbox(t, options{})
	goesOn(t, c)
	before, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := callScript(`exec python3 -c "
import json, os, socket
for round in range(20):
    conns = []
    for i in range(100):
        s = socket.socket(socket.AF_UNIX); s.connect(os.environ['CAISSON_CONTROL'])
        s.sendall(json.dumps({'id': 'x', 'name': 'n', 'input': 'y' * 10000}).encode() + b'\n')
        conns.append(s)
    for s in conns[::2]:
        assert json.loads(s.makefile().readline())['result'] == 10002
    for s in conns: s.close()
"`)
	h := &calling{&heard{}, func(_ context.Context, call backend.ControlCall) (backend.ControlReply, error) {
		return backend.ControlReply{Result: fmt.Appendf(nil, "%d", len(call.Input))}, nil
	}}
	res, err := c.Run(t.Context(), spec, h)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v, stderr %q", res, err, h.stderr.String())
	}
	var after agentclient.Status
	if !eventually(func() bool {
		if after, err = c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return after.Goroutines <= before.Goroutines+2 && after.Descriptors <= before.Descriptors+2
	}) {
		t.Errorf("goroutines %d, then %d; descriptors %d, then %d", before.Goroutines, after.Goroutines, before.Descriptors, after.Descriptors)
	}
}

// TestWithdrawnCalls: a program may give its calls up and make others at once, however
// slowly those who were asked notice. They are asked no more than may be open.
func TestWithdrawnCalls(t *testing.T) {
	_, c := sandbox(t, options{})
	spec := callScript(`exec python3 -c "
import json, os, socket
def call(name, n):
    s = socket.socket(socket.AF_UNIX); s.connect(os.environ['CAISSON_CONTROL'])
    s.sendall(b''.join(json.dumps({'id': str(i), 'name': name, 'input': i}).encode() + b'\n' for i in range(n)))
    return s, s.makefile()
for round in range(3):
    call('slow', 100)
    s, f = call('echo', 1)
    assert json.loads(f.readline())['result'] == 0
"`)
	var open, most atomic.Int64
	h := &calling{&heard{}, func(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error) {
		n := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if call.Name == "slow" {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			return backend.ControlReply{}, ctx.Err()
		}
		return backend.ControlReply{Result: call.Input}, nil
	}}
	res, err := c.Run(t.Context(), spec, h)
	if err != nil || res.Stop != backend.StopExit || res.ExitCode != 0 || most.Load() > control.MaxOpen {
		t.Errorf("%+v, %v, stderr %q, %d calls at once", res, err, h.stderr.String(), most.Load())
	}
}

// TestDetachedRunsMakeNoCalls: nobody would answer.
func TestDetachedRunsMakeNoCalls(t *testing.T) {
	_, c := sandbox(t, options{})
	err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: callScript("true")}, &heard{})
	var e *backend.Error
	if !errors.As(err, &e) || e.Kind != backend.KindUnsupported {
		t.Errorf("err = %v", err)
	}
}
