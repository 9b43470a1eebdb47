package backendtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// startDetached starts a run that goes on after this.
func (k *kit) startDetached(t *testing.T, ref backend.Ref, ops ...string) string {
	t.Helper()
	spec := k.runSpec(ref, ops...)
	rec := &recorder{t: t}
	runner := optional[backend.DetachedRunner](t, k)
	var err error
	k.within(t, "StartRun", func() {
		err = runner.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec, TTL: k.Patience}, rec)
	})
	if err != nil {
		t.Errorf("StartRun: %v", err)
	}
	rec.over.Store(true)
	return spec.RunID
}

// attach follows a run until it ends, or until its output contains a word.
func (k *kit) attach(t *testing.T, ref backend.Ref, id, until string) (outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rec := &recorder{t: t, attached: true}
	if until != "" {
		rec.onStdout = func(all string) error {
			if strings.Contains(all, until) {
				cancel()
			}
			return nil
		}
	}
	var o outcome
	var err error
	k.within(t, "AttachRun", func() {
		o.RunResult, err = optional[backend.DetachedRunner](t, k).AttachRun(ctx, ref, id, rec)
	})
	rec.over.Store(true)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	o.stdout, o.stderr = rec.stdout.String(), rec.stderr.String()
	return o, err
}

// optionalDetached: a run outlives the call that began it and whoever watches.
func (k *kit) optionalDetached(t *testing.T) {
	d := optional[backend.DetachedRunner](t, k)
	ref := k.sandbox(t)
	id := k.startDetached(t, ref, "out", "begun|", "write", "made", "x", "exit", "5")
	o, err := k.attach(t, ref, id, "")
	if err != nil || o.Stop != backend.StopExit || o.ExitCode != 5 || o.stdout != "begun|" {
		t.Errorf("attached to a run that ends: %+v, stdout %q, %v", o.RunResult, o.stdout, err)
	}
	wantChanged(t, o, "made")

	id = k.startDetached(t, ref, "out", "first|", "sleep", "300", "out", "second|", "spin")
	for _, until := range []string{"first|", "second|"} { // leaving leaves the run alone, and what was printed is kept
		o, err := k.attach(t, ref, id, until)
		if !errors.Is(err, context.Canceled) || !strings.HasSuffix(o.stdout, until) || !strings.HasPrefix(o.stdout, "first|") {
			t.Errorf("leaving an attached run after %q: stdout %q, %v", until, o.stdout, err)
		}
	}
	for range 2 {
		if err := d.KillRun(t.Context(), ref, id); err != nil {
			t.Errorf("KillRun: %v", err)
		}
	}
	o, err = k.attach(t, ref, id, "")
	if err == nil && (o.Stop == backend.StopExit && o.ExitCode == 0 || o.stdout != "first|second|") {
		t.Errorf("a killed run: %+v, stdout %q", o.RunResult, o.stdout)
	}
	wantNoProof(t, "AttachRun of a killed run", err)
	if got := k.run(t, ref, "out", "on").stdout; got != "on" {
		t.Errorf("after that a run prints %q", got)
	}
}

// optionalDetachedAbsent: an unknown run says nothing about its sandbox.
func (k *kit) optionalDetachedAbsent(t *testing.T) {
	d := optional[backend.DetachedRunner](t, k)
	ref := k.sandbox(t)
	_, err := k.attach(t, ref, k.session(), "")
	wantFileError(t, "AttachRun of an unknown run", err, backend.KindNotFound)
	if err := d.KillRun(t.Context(), ref, k.session()); err != nil {
		wantFileError(t, "KillRun of an unknown run", err, backend.KindNotFound)
	}
	_, err = k.attach(t, k.ghost(), "x", "")
	wantGone(t, "AttachRun", err)
	wantGone(t, "KillRun", d.KillRun(t.Context(), k.ghost(), "x"))
}

// optionalWatch reports changes until the caller or the listener has enough.
func (k *kit) optionalWatch(t *testing.T) {
	w := optional[backend.Watcher](t, k)
	wantGone(t, "Watch", w.Watch(t.Context(), k.ghost(), backend.DataDir, true, func(backend.WatchEvent) error { return nil }))
	ref := k.sandbox(t)
	if err := k.b.MakeDir(t.Context(), ref, data("sub")); err != nil {
		t.Fatal(err)
	}
	// Nobody says when watching begins: write until something is seen.
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			_, err := k.b.WriteFile(ctx, ref, data("sub", "f"), backend.WriteOptions{}, strings.NewReader(strings.Repeat("x", i)))
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("WriteFile: %v", err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	var err error
	k.within(t, "Watch", func() {
		err = w.Watch(t.Context(), ref, backend.DataDir, true, func(e backend.WatchEvent) error {
			if e.Path == data("sub", "f") {
				return errListener
			}
			return nil
		})
	})
	if !errors.Is(err, errListener) {
		t.Errorf("Watch: %v, want the listener's error", err)
	}
	stop()
	<-written
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	k.within(t, "Watch", func() {
		err = w.Watch(ctx, ref, backend.DataDir, false, func(backend.WatchEvent) error { return nil })
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Watch: %v", err)
	}
}
