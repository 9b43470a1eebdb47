package hostbackend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// detached is a run that outlives the call which began it. It keeps all that it
// tells.
type detached struct {
	ref    backend.Ref
	cancel context.CancelFunc
	ended  chan struct{}
	res    backend.RunResult
	err    error

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
	more           chan struct{} // closed and replaced when there is more
}

// keeper is the RunIO of a detached run: the caller's until it has started.
type keeper struct {
	*detached
	live    backend.RunIO
	stdin   []byte
	started chan struct{}
}

func (k *keeper) Input(i int) (io.Reader, error) { return k.live.Input(i) }
func (k *keeper) Stdin() io.Reader               { return bytes.NewReader(k.stdin) }

func (k *keeper) Started() error {
	err := k.live.Started()
	close(k.started)
	return err
}

func (k *keeper) Stdout(p []byte) error { return k.keep(&k.stdout, p) }
func (k *keeper) Stderr(p []byte) error { return k.keep(&k.stderr, p) }

func (d *detached) keep(b *bytes.Buffer, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.Write(p)
	close(d.more)
	d.more = make(chan struct{})
	return nil
}

func (k *keeper) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, errors.New("no calls")
}

// StartRun implements backend.DetachedRunner.
func (b *Backend) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	if _, err := b.awake(ctx, "StartRun", spec.Ref); err != nil {
		return err
	}
	d := &detached{ref: spec.Ref, ended: make(chan struct{}), more: make(chan struct{})}
	k := &keeper{detached: d, live: live, started: make(chan struct{})}
	if spec.Stdin {
		var err error
		if k.stdin, err = io.ReadAll(live.Stdin()); err != nil {
			return err
		}
	}
	life := context.WithoutCancel(ctx)
	if spec.TTL > 0 {
		life, d.cancel = context.WithTimeout(life, spec.TTL)
	} else {
		life, d.cancel = context.WithCancel(life)
	}
	b.mu.Lock()
	b.runs[spec.RunID] = d
	b.mu.Unlock()
	go func() {
		defer d.cancel()
		defer close(d.ended)
		d.res, d.err = b.Run(life, spec.RunSpec, k)
	}()
	select {
	case <-k.started:
		return nil
	case <-d.ended:
		return d.err
	case <-ctx.Done():
		d.cancel()
		<-d.ended
		return ctx.Err()
	}
}

func (b *Backend) detached(ctx context.Context, op string, ref backend.Ref, id string) (*detached, error) {
	if _, err := b.awake(ctx, op, ref); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.runs[id]
	if !ok || d.ref != ref {
		e := backend.Errorf(backend.KindNotFound, op, "there is no such run")
		e.Subject, e.Plane = backend.SubjectRun, backend.PlaneControl
		return nil, e
	}
	return d, nil
}

// AttachRun implements backend.DetachedRunner.
func (b *Backend) AttachRun(ctx context.Context, ref backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
	d, err := b.detached(ctx, "AttachRun", ref, id)
	if err != nil {
		return backend.RunResult{}, err
	}
	var out, errs int
	for ended := false; ; {
		d.mu.Lock()
		stdout, stderr, more := d.stdout.Bytes()[out:], d.stderr.Bytes()[errs:], d.more
		d.mu.Unlock()
		out, errs = out+len(stdout), errs+len(stderr)
		if len(stdout) > 0 {
			err = live.Stdout(stdout)
		}
		if len(stderr) > 0 && err == nil {
			err = live.Stderr(stderr)
		}
		switch {
		case err != nil:
			return backend.RunResult{}, err
		case ended:
			return d.res, d.err
		}
		select {
		case <-more:
		case <-d.ended:
			ended = true // one more look
		case <-ctx.Done():
			return backend.RunResult{}, ctx.Err()
		}
	}
}

// KillRun implements backend.DetachedRunner.
func (b *Backend) KillRun(ctx context.Context, ref backend.Ref, id string) error {
	d, err := b.detached(ctx, "KillRun", ref, id)
	if err != nil {
		return err
	}
	d.cancel()
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
