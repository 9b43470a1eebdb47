package shell

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// maxCalls is how many commands of a script may wait for an answer, or for their turn
// to call.
const maxCalls = control.MaxConns

// isCall reports whether a program is the command that makes a call.
func isCall(s wire.Start) bool { return len(s.Argv) > 0 && s.Argv[0] == guest.ControlCommand }

// call is guest.ControlCommand: no program, but it has the streams of one.
func (g *programs) call(ctx context.Context, s wire.Start, files []*os.File) wire.Ended {
	defer theirs(files).close()
	defer context.AfterFunc(ctx, theirs(files).close)()
	end := wire.Ended{ID: s.ID, Code: 126, Message: "this run makes no calls"}
	calls := g.run.Program.Control
	if calls == nil {
		return end
	}
	_, out, errs := standard(s, files)
	writer := func(f *os.File) io.Writer {
		return writerFunc(func(b []byte) (int, error) {
			if f == nil || ctx.Err() != nil { // a command that is ended says nothing
				return len(b), nil
			}
			return f.Write(b)
		})
	}
	end.Message = ""
	end.Code = uint32(control.Command(s.Argv[1:], func(name string, input []byte) (control.Reply, error) {
		return calls.Ask(ctx, name, input)
	}, writer(out), writer(errs)))
	return end
}

// watch gives up the script's place while calls are open, and bounds what it computes
// meanwhile. The caller calls stop at the end of the script.
func (g *programs) watch() (stop func()) {
	p := g.run.Program
	if p.Control == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(g.ctx)
	var all sync.WaitGroup
	all.Go(func() { g.yieldPlace(ctx) })
	if b := p.Beside; b != nil {
		all.Go(func() {
			control.Beside{
				Used: func() (time.Duration, error) {
					cpu, err := g.p.CPU()
					return cpu + guest.CPUTime(b.Used()), err
				},
				Limit: guest.CPUTime(b.Limit), Expire: b.Expire,
			}.Watch(ctx, p.Control)
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// lookInterval is how often a worker is looked at while calls are open, and busy the part
// of a processor that it uses in between if it computes.
const (
	lookInterval = 100 * time.Millisecond
	busy         = 0.2
)

// yieldPlace gives up the script's place while calls are open and the worker does
// nothing. One that computes is stopped until it is its turn, or there is a place for it.
func (g *programs) yieldPlace(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var before time.Duration
	interval := time.Duration(0) // between the last two looks
	for {
		open, changed := g.run.Program.Control.Suspended()
		now, err := g.p.CPU()
		computes := err != nil || float64(now-before) >= busy*float64(max(interval, lookInterval/5))
		before = now
		switch {
		case open && !computes:
			g.run.Rise()
		case open && g.run.Program.Bench != nil:
			if !g.stopped(func() error { return g.run.Bench(ctx) }) {
				return
			}
		case !g.run.Seated():
			if !g.stopped(func() error { return g.run.Sit(ctx) }) {
				return
			}
		}
		if interval = lookInterval; g.run.Benched() {
			interval = guest.BenchTurn
		}
		tick.Reset(interval)
		var look <-chan time.Time // only while calls are open
		if open {
			look = tick.C
		}
		select {
		case <-look:
		case <-changed:
			before, _ = g.p.CPU() // so much for the time until now
			interval = 0
		case <-ctx.Done():
			return
		}
	}
}

// stopped waits while the worker does nothing, and reports whether that succeeded.
func (g *programs) stopped(wait func() error) bool {
	g.p.Signal(syscall.SIGSTOP)
	defer g.p.Signal(syscall.SIGCONT)
	return wait() == nil
}
