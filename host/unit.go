package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

// unit is one process of a backend plugin, with every config open.
type unit struct {
	proc    *process.Process
	backend everything
	info    backend.Info

	mu     sync.Mutex
	offers map[string]*offering // by the id of the config
}

var _ supervise.Unit = (*unit)(nil)

// Done is closed when the process has ended. What it wrote may still be read.
func (u *unit) Done() <-chan struct{} { return u.proc.Dead() }

// Serving is false from the moment the connection breaks.
func (u *unit) Serving() bool { return u.proc.Serving() }

// Ended says how.
func (u *unit) Ended() supervise.Ended {
	<-u.proc.Done()
	_, lines, _ := u.proc.Exit()
	return supervise.Ended{Cause: u.proc.ExitCause(), Lines: lines}
}

// Stop ends the process, by force once ctx has ended.
func (u *unit) Stop(ctx context.Context) error { return u.proc.Stop(ctx) }

// health is what a supervisor asks every few seconds. What the configs offer is
// asked again on the way, so that no request has to.
func (u *unit) health(ctx context.Context) (supervise.Health, error) {
	h, err := u.backend.Health(ctx)
	if err == nil {
		u.mu.Lock()
		offers := slices.Collect(maps.Values(u.offers))
		u.mu.Unlock()
		for _, o := range offers {
			o.renew(ctx)
		}
	}
	return supervise.Health{Ready: h.Ready, Reason: h.Reason}, err
}

// open makes a config usable, or gives it another content.
func (u *unit) open(ctx context.Context, c BackendConfig, now func() time.Time) error {
	if err := u.backend.OpenConfig(ctx, c.ID, c.Config); err != nil {
		return fmt.Errorf("open config %q: %w", c.ID, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offers[c.ID] = &offering{backend: u.backend, config: c.Config, now: now, presumed: u.info.Languages}
	return nil
}

// close forgets a config.
func (u *unit) close(ctx context.Context, id string) error {
	u.mu.Lock()
	delete(u.offers, id)
	u.mu.Unlock()
	return u.backend.CloseConfig(ctx, id)
}

// languages are what programs may be written in on a config.
func (u *unit) languages(ctx context.Context, config string) []backend.LanguageSupport {
	u.mu.Lock()
	o := u.offers[config]
	u.mu.Unlock()
	if o == nil { // it was closed a moment ago
		return u.info.Languages
	}
	return o.languages(ctx)
}

// launch starts a process of p and brings it to readiness. Nothing is left of it
// on failure.
func (p *program) launch(ctx context.Context) (_ *unit, err error) {
	m, timeout := p.found.m, p.startTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready within %v", timeout))
	defer cancel()
	before := fileAt(p.found.artifact())
	proc, err := p.run(ctx, process.Spec{
		Name:         m.Name,
		Path:         p.found.artifact(),
		SHA256:       m.SHA256,
		Env:          p.env,
		SocketRoot:   p.sockets,
		StartTimeout: timeout,
		Log:          p.log,
		Observe:      p.observe,
		Keep:         p.keep,
	})
	if err != nil {
		return nil, p.hopeless(err, before)
	}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, proc.Stop(stop))
		}
	}()
	b, ok := proc.Backend().(everything)
	if !ok {
		return nil, errors.New("its client lacks a part of the contract") // a mistake of ours
	}
	info, err := b.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what it is: %w", err)
	}
	if err := checkInfo(p.found, info); err != nil {
		return nil, err
	}
	p.info.Store(&info)
	u := &unit{proc: proc, backend: b, info: info, offers: make(map[string]*offering)}
	for _, c := range p.configs() {
		if err := u.open(ctx, c, p.now); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// startTimeout bounds what makes a process ready: its start, and the opening of a config
// later.
func (p *program) startTimeout() time.Duration {
	if t := p.found.m.StartTimeout; t != 0 {
		return t
	}
	return startTimeout
}

// reopen opens a config of a process that serves, in the time that a start has.
func (p *program) reopen(ctx context.Context, u *unit, c BackendConfig) error {
	timeout := p.startTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %v", timeout))
	defer cancel()
	err := u.open(ctx, c, p.now)
	if err != nil {
		if cause := ended(ctx); cause != nil {
			return fmt.Errorf("open config %q: %w", c.ID, cause)
		}
	}
	return err
}

// ended is what ended ctx, nil where it has not. A plugin is told of the deadline and may
// answer that it has passed before the timer of ctx runs.
func ended(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= 0 {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// hopeless is err, and that no further start succeeds if err is about the program's
// file: it must be that which the manifest pins, and nobody else's to change. before
// is the file as it was before it was looked at.
func (p *program) hopeless(err error, before file) error {
	if fe, ok := errors.AsType[*process.FileError](err); !ok || fe.Path != before.path {
		return err
	}
	return &supervise.ImpossibleError{Err: err, Changed: func() bool { return fileAt(before.path).differs(before) }}
}

// file is a file as its file system describes it: its content takes long to read.
type file struct {
	path  string
	info  fs.FileInfo // nil where there is none
	place error       // of process.CheckPlace
}

func fileAt(path string) file {
	f := file{path: path}
	if info, err := os.Stat(path); err == nil {
		f.info, f.place = info, process.CheckPlace(path)
	}
	return f
}

func (f file) differs(o file) bool {
	if f.info == nil || o.info == nil {
		return f.info != o.info
	}
	return !os.SameFile(f.info, o.info) || f.info.Size() != o.info.Size() || !f.info.ModTime().Equal(o.info.ModTime()) ||
		f.info.Mode() != o.info.Mode() || fmt.Sprint(f.place) != fmt.Sprint(o.place)
}
