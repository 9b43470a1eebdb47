package interp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

// TestCallingAreBounded: programs that wait for the answer to a call keep what they hold,
// so there are no more of them than fit; others do not suffer from that.
func TestCallingAreBounded(t *testing.T) {
	need(t, "node")
	const limit = 64 << 20
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{MaxCalling: 2}, "2 programs that may make calls have not ended"},
		{Config{CallingBytes: 2 * limit}, fmt.Sprint(2*limit, " bytes of memory")},
	} {
		c.cfg.Parked = -1
		e := newEngine(t, c.cfg)
		s := newSandbox(t)
		caller := func(answer answerer) Program {
			p := s.program("node", "main.js", `
const fs = require('fs'), fd = fs.openSync(process.env.CAISSON_CONTROL, 'r+'), b = Buffer.alloc(100)
fs.writeSync(fd, '{"id":"1","name":"n","input":1}\n')
fs.readSync(fd, b, 0, 100, null)`)
			p.MemoryBytes = limit
			s.callable(&p, answer)
			return p
		}
		waits, answer := make(chan struct{}, 2), make(chan struct{})
		var all sync.WaitGroup
		for range 2 {
			p := caller(func(context.Context, control.Call) (control.Reply, error) {
				waits <- struct{}{}
				<-answer
				return control.Reply{Result: []byte("1")}, nil
			})
			all.Go(func() { s.expect(s.runOn(e, p), 0, "", "") })
		}
		<-waits
		<-waits
		if res, err := e.Run(t.Context(), caller(after(0))); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("one more: %+v, %v, want %s", res, err, c.want)
		}
		s.expect(s.runOn(e, s.program("node", "main.js", "console.log('other')")), 0, "other\n", "")
		close(answer)
		all.Wait()
		s.expect(s.runOn(e, caller(after(time.Millisecond))), 0, "", "")
		if p := caller(after(0)); c.cfg.CallingBytes > 0 {
			p.MemoryBytes = 3 * limit
			if _, err := e.Run(t.Context(), p); !errors.Is(err, ErrBadProgram) {
				t.Errorf("what cannot ever fit: %v", err)
			}
		}
	}
}

// TestScriptsCountWhatTheyStart: the programs of a script count beside it.
func TestScriptsCountWhatTheyStart(t *testing.T) {
	need(t, "bash")
	need(t, "node")
	e := newEngine(t, Config{Parked: -1, MaxCalling: 2, Shell: shared.cfg.Shell})
	s := newSandbox(t)
	p := s.program("bash", "main.sh", `
node -e '
const fs = require("fs"), fd = fs.openSync(process.env.CAISSON_CONTROL, "r+"), b = Buffer.alloc(100)
fs.writeSync(fd, JSON.stringify({id: "1", name: "first", input: 1}) + String.fromCharCode(10))
fs.readSync(fd, b, 0, 100, null)' && echo first &
"$CAISSON_CALL" begun > /dev/null
node -e 'console.log("second")' 2>&1 || echo "status $?"
"$CAISSON_CALL" go > /dev/null
wait
node -e 'console.log("third")'`)
	begun, goOn := make(chan struct{}), make(chan struct{})
	s.callable(&p, func(ctx context.Context, c control.Call) (control.Reply, error) {
		switch c.Name {
		case "first":
			close(begun)
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		case "begun":
			select {
			case <-begun:
			case <-ctx.Done():
			}
		case "go":
			close(goOn)
		}
		return control.Reply{Result: []byte("1")}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := s.on(ctx, e, p)
	if o.Code != 0 || !strings.Contains(o.stdout, "cannot allocate memory") || !strings.HasSuffix(o.stdout, "first\nthird\n") {
		t.Errorf("%+v", o)
	}
}

// TestTooManyCalls: what a script is told that calls more often at once than it may.
func TestTooManyCalls(t *testing.T) {
	need(t, "bash")
	s := newSandbox(t)
	p := s.program("bash", "main.sh", `
for i in $(seq 129); do "$CAISSON_CALL" n > /dev/null & done
wait`)
	said := make(chan struct{}, 1)
	var stderr bytes.Buffer
	p.Stderr = io.MultiWriter(&stderr, signal(said))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.callable(&p, func(ctx context.Context, _ control.Call) (control.Reply, error) {
		select {
		case <-said: // for all of them
			said <- struct{}{}
		case <-ctx.Done():
		}
		return control.Reply{Result: []byte("1")}, nil
	})
	if o := s.on(ctx, shared, p); o.Code != 0 || !strings.Contains(stderr.String(), "128 calls wait already") {
		t.Errorf("%+v, %q", o, stderr.String())
	}
}
