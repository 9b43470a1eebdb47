package backendtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// controlMutations are mistakes with calls of programs.
var controlMutations = []mutation{
	{"the errors of calls are results", "control/error", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{call: func(io backend.RunIO, ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
			r, err := io.Call(ctx, c)
			if r.Error != "" {
				r = backend.ControlReply{Result: []byte("null")}
			}
			return r, err
		}})
	}},
	{"the input of calls is lost", "control/one", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{call: func(io backend.RunIO, ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
			c.Input = []byte("{}")
			return io.Call(ctx, c)
		}})
	}},
	{"calls follow each other", "control/two_connections", func(_ *testing.T, m *mutant) {
		var one sync.Mutex
		m.tells(wrapIO{call: func(io backend.RunIO, ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
			one.Lock()
			defer one.Unlock()
			return io.Call(ctx, c)
		}})
	}},
	{"every step is offered calls", "control/environment", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			if c.Env[control.EnvPath] == "" {
				c.Env[control.EnvPath] = "/somewhere"
			}
			return inner(ctx, c, out)
		}
	}},
	{"runs that do not ask are offered calls", "control/not_asked_for", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			s.Control = true
			return inner(ctx, s, live)
		}
	}},
	{"the clock runs on while calls are open", "control/clock", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			ctx, cancel := context.WithTimeout(ctx, max(s.Limits.Wall, time.Millisecond))
			defer cancel()
			return inner(ctx, s, live)
		}
	}},
	{"waiting for answers is used time", "control/clock", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			began := time.Now()
			r, err := inner(ctx, s, live)
			r.Usage.Wall = time.Since(began)
			return r, err
		}
	}},
	{"who computes beside calls times out", "control/beside", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) {
			if r.Stop == backend.StopCPU {
				r.Stop = backend.StopTimeout
			}
		})
	}},
	{"a program goes on without answers", "control/listener_gone", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{call: func(io backend.RunIO, ctx context.Context, c backend.ControlCall) (backend.ControlReply, error) {
			r, err := io.Call(ctx, c)
			if err != nil {
				r, err = backend.ControlReply{Error: "nobody is there"}, nil
			}
			return r, err
		}})
	}},
}
