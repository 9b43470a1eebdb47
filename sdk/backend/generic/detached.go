package generic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Keeper makes a backend.DetachedRunner of a Run: it lets runs outlive the call that
// began them and keeps what they say, as much of it as Run passes on, in memory of this
// process. It is safe for concurrent use.
type Keeper struct {
	run func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error)

	mu    sync.Mutex
	runs  map[kept]*detached
	ended []kept // the oldest first
	wg    sync.WaitGroup
}

// maxEnded is how many runs are remembered after their end.
const maxEnded = 256

// maxStdin is how much input a run may be given: it is held in memory.
const maxStdin = 64 << 20

// kept names a run.
type kept struct {
	ref backend.Ref
	id  string
}

// NewKeeper returns a keeper of runs that run carries out.
func NewKeeper(run func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error)) *Keeper {
	return &Keeper{run: run, runs: make(map[kept]*detached)}
}

// Close ends all runs and waits for them.
func (k *Keeper) Close() {
	k.mu.Lock()
	for _, d := range k.runs {
		d.cancel()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// detached is one run and all that it tells.
type detached struct {
	live    backend.RunIO // the caller's, until it has started
	stdin   []byte
	started chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	over    chan struct{} // closed once res and err are set
	res     backend.RunResult
	err     error

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
	more           chan struct{} // closed and replaced when there is more
}

func (d *detached) Input(i int) (io.Reader, error) { return d.live.Input(i) }
func (d *detached) Stdin() io.Reader               { return bytes.NewReader(d.stdin) }

func (d *detached) Started() error {
	err := d.live.Started()
	d.once.Do(func() { close(d.started) })
	return err
}

func (d *detached) Stdout(p []byte) error { return d.keep(&d.stdout, p) }
func (d *detached) Stderr(p []byte) error { return d.keep(&d.stderr, p) }

func (d *detached) keep(b *bytes.Buffer, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.Write(p)
	close(d.more)
	d.more = make(chan struct{})
	return nil
}

func (d *detached) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, errors.New("a detached run has nobody to call")
}

// StartRun is that of backend.DetachedRunner. A run of that id in the sandbox is a
// KindConflict.
func (k *Keeper) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	const op = "StartRun"
	if spec.Control {
		return backend.Errorf(backend.KindUnsupported, op, "control: nobody answers the calls of a detached run")
	}
	d := &detached{live: live, started: make(chan struct{}), over: make(chan struct{}), more: make(chan struct{})}
	if spec.Stdin {
		var err error
		if d.stdin, err = io.ReadAll(io.LimitReader(live.Stdin(), maxStdin+1)); err != nil {
			return err
		}
		if len(d.stdin) > maxStdin {
			return backend.Errorf(backend.KindInvalidRequest, op, "stdin is longer than %d bytes", maxStdin)
		}
	}
	life := context.WithoutCancel(ctx)
	if spec.TTL > 0 {
		life, d.cancel = context.WithTimeout(life, spec.TTL)
	} else {
		life, d.cancel = context.WithCancel(life)
	}
	name := kept{spec.Ref, spec.RunID}
	k.mu.Lock()
	if k.runs[name] != nil {
		k.mu.Unlock()
		d.cancel()
		return backend.Errorf(backend.KindConflict, op, "there is a run of that id")
	}
	k.runs[name] = d
	k.mu.Unlock()
	k.wg.Go(func() {
		defer d.cancel()
		d.res, d.err = k.run(life, spec.RunSpec, d)
		if d.err == nil && d.res.Stop == backend.StopCanceled && errors.Is(life.Err(), context.DeadlineExceeded) {
			d.res.Stop = backend.StopTimeout
		}
		k.retire(name)
		close(d.over)
	})
	var left error // the caller's own: others may be attached, and read the run's
	select {
	case <-d.started:
		return nil
	case <-d.over:
	case <-ctx.Done():
		d.cancel()
		<-d.over
		left = ctx.Err()
	}
	select {
	case <-d.started: // it has ended already
		return ctx.Err()
	default:
		k.forget(name)
		return cmp.Or(left, d.err)
	}
}

// retire forgets the oldest of those that ended.
func (k *Keeper) retire(name kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = append(k.ended, name)
	if len(k.ended) > maxEnded {
		delete(k.runs, k.ended[0])
		k.ended = k.ended[1:]
	}
}

func (k *Keeper) forget(name kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, name)
	k.ended = slices.DeleteFunc(k.ended, func(n kept) bool { return n == name })
}

func (k *Keeper) find(op string, name kept) (*detached, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.runs[name]; d != nil {
		return d, nil
	}
	e := backend.Errorf(backend.KindNotFound, op, "there is no such run")
	e.Subject, e.Plane = backend.SubjectRun, backend.PlaneControl
	return nil, e
}

// AttachRun is that of backend.DetachedRunner.
func (k *Keeper) AttachRun(ctx context.Context, ref backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
	d, err := k.find("AttachRun", kept{ref, id})
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
		case <-d.over:
			ended = true
		case <-ctx.Done():
			return backend.RunResult{}, ctx.Err()
		}
	}
}

// KillRun is that of backend.DetachedRunner. It waits for the run's end.
func (k *Keeper) KillRun(ctx context.Context, ref backend.Ref, id string) error {
	d, err := k.find("KillRun", kept{ref, id})
	if err != nil {
		return err
	}
	d.cancel()
	select {
	case <-d.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
