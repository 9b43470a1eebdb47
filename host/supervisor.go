package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// supervisor owns the process of one backend plugin: it starts it, gives out
// references to the running generation, and starts another when it has died.
type supervisor struct {
	found   found
	configs []BackendConfig
	env     []string
	sockets string
	log     hclog.Logger
	// life ends when the host closes; starts belong to it, not to the caller
	// who happened to need one.
	life context.Context
	now  func() time.Time

	mu       sync.Mutex
	gen      *generation
	starting *start
	failed   time.Time // of the last failed or short-lived start
	cause    error
	closed   bool
}

// start is one attempt that several callers wait for.
type start struct {
	done chan struct{}
	gen  *generation
	err  error
}

// acquire returns the running generation with a reference taken, starting one
// if there is none. It returns a KindUnavailable error when that fails or when
// the last failure is too recent.
func (s *supervisor) acquire(ctx context.Context) (*generation, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, unavailable(s.found.status.Name, errors.New("the host is closing"), 0)
		case s.gen != nil && s.gen.take():
			g := s.gen
			s.mu.Unlock()
			return g, nil
		case s.starting == nil:
			if wait := restartPause - s.now().Sub(s.failed); !s.failed.IsZero() && wait > 0 {
				cause := s.cause
				s.mu.Unlock()
				return nil, unavailable(s.found.status.Name, cause, wait)
			}
			s.starting = &start{done: make(chan struct{})}
			go s.run(s.starting)
		}
		st := s.starting
		s.mu.Unlock()

		select {
		case <-st.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if st.err != nil {
			return nil, unavailable(s.found.status.Name, st.err, restartPause)
		}
	}
}

func unavailable(plugin string, cause error, after time.Duration) error {
	e := backend.Errorf(backend.KindUnavailable, "start", "plugin is not running: %w", cause)
	e.Provider, e.RetryAfter = plugin, after
	return e
}

// run carries out one start and publishes its outcome.
func (s *supervisor) run(st *start) {
	defer close(st.done)
	old := s.retire()
	if old != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), stopTimeout)
		_ = old.proc.Stop(ctx) // it has exited; this collects what it left
		cancel()
	}
	st.gen, st.err = s.launch(s.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = nil
	if st.err != nil {
		s.failed, s.cause = s.now(), st.err
		s.log.Error("plugin did not start", "error", st.err)
		return
	}
	s.gen, s.cause = st.gen, nil
}

// retire takes a dead generation out of service.
func (s *supervisor) retire() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.gen
	s.gen = nil
	if old != nil {
		s.failed, s.cause = time.Time{}, nil
		s.log.Warn("plugin process ended, starting it again", "exit", old.proc.ExitCause())
	}
	return old
}

// launch starts a process and brings it to readiness. Nothing is left of it on
// failure.
func (s *supervisor) launch(ctx context.Context) (_ *generation, err error) {
	m := s.found.m
	timeout := m.StartTimeout
	if timeout == 0 {
		timeout = startTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	proc, err := process.Start(ctx, process.Spec{
		Name:         m.Name,
		Path:         s.found.artifact(),
		SHA256:       m.SHA256,
		Env:          s.env,
		SocketRoot:   s.sockets,
		StartTimeout: timeout,
		Log:          s.log,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, proc.Stop(stop))
		}
	}()
	b := proc.Backend()
	info, err := b.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what it is: %w", err)
	}
	if err := checkInfo(s.found, info); err != nil {
		return nil, err
	}
	offers := make(map[string]*offering, len(s.configs))
	for _, c := range s.configs {
		if err := b.OpenConfig(ctx, c.ID, c.Config); err != nil {
			return nil, fmt.Errorf("open config %q: %w", c.ID, err)
		}
		offers[c.ID] = &offering{backend: b, config: c.Config, now: s.now, presumed: info.Languages}
	}
	return &generation{proc: proc, backend: b, info: info, offers: offers, idle: make(chan struct{})}, nil
}

// status is how the plugin is now.
func (s *supervisor) status() (PluginState, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gen != nil && s.gen.alive():
		return PluginReady, ""
	case s.gen != nil:
		return PluginStopped, s.gen.proc.ExitCause()
	case s.cause != nil:
		return PluginError, s.cause.Error()
	default:
		return PluginStopped, "not started"
	}
}

// close waits until nobody uses the process any more, or until ctx ends, and
// stops it.
func (s *supervisor) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	st := s.starting
	s.mu.Unlock()
	if st != nil {
		<-st.done // its context ended with the host's life
	}
	s.mu.Lock()
	g := s.gen
	s.gen = nil
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	g.drain(ctx)
	// The stop itself must happen even if draining used up the caller's time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return g.proc.Stop(ctx)
}

// generation is one process of a plugin with the calls that use it.
type generation struct {
	proc    *process.Process
	backend backend.Backend
	info    backend.Info
	offers  map[string]*offering // by the id of the config

	mu      sync.Mutex
	refs    int
	retired bool
	idle    chan struct{} // closed when retired and unused
}

func (g *generation) alive() bool {
	select {
	case <-g.proc.Done():
		return false
	default:
		return true
	}
}

// take adds a reference unless the generation is on its way out.
func (g *generation) take() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.retired || !g.alive() {
		return false
	}
	g.refs++
	return true
}

func (g *generation) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refs--; g.refs == 0 && g.retired {
		close(g.idle)
	}
}

// drain lets no further call in and waits for those inside, or for ctx.
func (g *generation) drain(ctx context.Context) {
	g.mu.Lock()
	g.retired = true
	inside := g.refs
	g.mu.Unlock()
	if inside == 0 {
		return
	}
	select {
	case <-g.idle:
	case <-g.proc.Done():
	case <-ctx.Done():
	}
}

// allowedEnv returns the variables that the manifest lists and the host has,
// as NAME=value.
func allowedEnv(names []string, lookup func(string) (string, bool)) []string {
	var env []string
	for _, n := range names {
		if v, ok := lookup(n); ok {
			env = append(env, n+"="+v)
		}
	}
	return env
}

// emptyConfig stands for a config that says nothing.
var emptyConfig = json.RawMessage("{}")
