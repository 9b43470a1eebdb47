package backendtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// controlClock: the clock stands still while a call is open, and starts anew.
func (k *kit) controlClock(t *testing.T) {
	spec := k.callSpec(k.sandbox(t), "out", "begun", "err", "so far", "write", "partial.txt", "x", "call", "slow", "{}", "spin")
	var (
		o                outcome
		wall, held, took time.Duration
	)
	k.shortly(func(limit time.Duration) bool {
		wall = max(limit, 2*time.Second) // a command may be a program that has to start
		spec.Limits.Wall = wall
		held = wall * 3 / 2
		var called atomic.Bool
		began := time.Now()
		o = k.do(t, spec, &recorder{onCall: func(ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
			called.Store(true)
			select {
			case <-time.After(held):
				return echo(ctx, c)
			case <-ctx.Done():
				t.Error("the run ended while a call was open")
				return backend.ControlReply{}, ctx.Err()
			}
		}})
		took = time.Since(began)
		return called.Load()
	})
	if o.stdout != "begun{}\n" {
		t.Errorf("stdout %q", o.stdout)
	}
	o.stdout = "begun"
	wantStopped(t, o, backend.StopTimeout)
	if took < held+wall {
		t.Errorf("it took %v, with %v of waiting and a limit of %v after it", took, held, wall)
	}
	if w := o.Usage.Wall; w < wall || w > took-held*9/10 {
		t.Errorf("usage %v of %v, %v of which it was suspended", w, took, held)
	}
}

// controlBeside: nobody computes for nothing beside an open call.
func (k *kit) controlBeside(t *testing.T) {
	spec := k.callSpec(k.sandbox(t), "out", "begun", "open", "never", "spin")
	var o outcome
	k.shortly(func(limit time.Duration) bool {
		spec.Limits.Wall, spec.Limits.CPUs = limit, 1
		var called atomic.Bool
		o = k.do(t, spec, &recorder{onCall: func(ctx context.Context, _ backend.ControlCall) (backend.ControlReply, error) {
			called.Store(true)
			<-ctx.Done()
			return backend.ControlReply{}, ctx.Err()
		}})
		return called.Load()
	})
	if o.Stop != backend.StopCPU || o.ExitCode != -1 || o.Message == "" || o.stdout != "begun" {
		t.Errorf("stop %q, status %d, message %q, stdout %q", o.Stop, o.ExitCode, o.Message, o.stdout)
	}
}

// controlCancel: a run that waits ends as any other.
func (k *kit) controlCancel(t *testing.T) {
	ref := k.sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended atomic.Int64
	rec := &recorder{onCall: func(ctx context.Context, _ backend.ControlCall) (backend.ControlReply, error) {
		cancel()
		<-ctx.Done()
		ended.Add(1)
		return backend.ControlReply{}, ctx.Err()
	}}
	o, err := k.try(t, ctx, k.callSpec(ref, "out", "begun", "err", "so far", "write", "partial.txt", "x", "call", "never", "{}"), rec)
	if err != nil {
		t.Fatalf("a cancelled run is a result, not an error: %v", err)
	}
	// The program may see its channel go before it goes itself.
	o.stderr = strings.TrimSuffix(o.stderr, "the channel ended\n")
	wantStopped(t, o, backend.StopCanceled)
	if ended.Load() != 1 {
		t.Error("a call was open after the run")
	}
	if got := k.ask(t, ref, echo, "call", "x", "{}").stdout; got != "{}\n" {
		t.Errorf("the next run says %q", got)
	}
}

// controlGone: when nobody answers any more the program is stopped.
func (k *kit) controlGone(t *testing.T) {
	rec := &recorder{onCall: func(context.Context, backend.ControlCall) (backend.ControlReply, error) {
		return backend.ControlReply{}, errListener
	}}
	o, err := k.try(t, t.Context(), k.callSpec(k.sandbox(t), "call", "x", "{}", "spin"), rec)
	if err == nil && o.Stop != backend.StopCanceled {
		t.Errorf("stop %q", o.Stop)
	}
	if err != nil && !errors.Is(err, errListener) {
		t.Errorf("err = %v", err)
	}
}
