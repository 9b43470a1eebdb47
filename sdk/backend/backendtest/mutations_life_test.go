package backendtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// lifeMutations are mistakes with configs, sandboxes and optional parts.
var lifeMutations = []mutation{
	{"promises what it lacks", "info/capabilities", func(_ *testing.T, m *mutant) {
		m.info = func(i backend.Info) backend.Info {
			i.Capabilities = append(i.Capabilities, backend.CapVolumes)
			return i
		}
	}},
	{"does what it does not declare", "info/capabilities", func(_ *testing.T, m *mutant) {
		m.info = func(i backend.Info) backend.Info {
			i.Capabilities = slices.DeleteFunc(i.Capabilities, func(c backend.Capability) bool { return c == backend.CapPause })
			return i
		}
	}},
	{"unknown config looks like a sandbox that is gone", "config/unknown", func(_ *testing.T, m *mutant) {
		inner := m.get
		m.get = func(ctx context.Context, r backend.Ref) (backend.Sandbox, error) {
			s, err := inner(ctx, r)
			var e *backend.Error
			if errors.As(err, &e) {
				e.Subject = backend.SubjectSandbox
			}
			return s, err
		}
	}},
	{"closing a config ends its sandboxes", "config/close", func(_ *testing.T, m *mutant) {
		m.closed = func(ctx context.Context, id string) error {
			all, _ := m.Backend.List(ctx, backend.ListFilter{Config: id})
			for _, s := range all {
				_ = m.Backend.Delete(ctx, s.Ref)
			}
			return m.Backend.CloseConfig(ctx, id)
		}
	}},
	{"list ignores labels", "lifecycle/filter", func(_ *testing.T, m *mutant) {
		m.list = func(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
			f.Labels = nil
			return m.Backend.List(ctx, f)
		}
	}},
	{"list ignores the deployment", "lifecycle/filter", func(_ *testing.T, m *mutant) {
		m.list = func(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
			f.Deployment = ""
			return m.Backend.List(ctx, f)
		}
	}},
	{"list leaves paused out", "optional/pause", func(_ *testing.T, m *mutant) {
		m.list = func(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
			if len(f.States) == 0 {
				f.States = []backend.State{backend.StateRunning}
			}
			return m.Backend.List(ctx, f)
		}
	}},
	{"get wakes", "optional/pause", func(_ *testing.T, m *mutant) {
		m.get = func(ctx context.Context, r backend.Ref) (backend.Sandbox, error) { return m.Backend.Connect(ctx, r) }
	}},
	{"labels are lost", "lifecycle/metadata", func(_ *testing.T, m *mutant) {
		m.create = func(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
			s.Metadata.Labels = nil
			return m.Backend.Create(ctx, s)
		}
	}},
	{"a second create replaces", "lifecycle/conflict", func(_ *testing.T, m *mutant) {
		m.create = func(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
			_ = m.Backend.Delete(ctx, backend.Ref{Config: s.Config, ID: s.Session})
			return m.Backend.Create(ctx, s)
		}
	}},
	{"an open network is promised", "lifecycle/refuses_what_it_cannot", func(_ *testing.T, m *mutant) {
		m.create = func(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
			s.Network = backend.Network{}
			return m.Backend.Create(ctx, s)
		}
	}},
	{"an absent sandbox is an internal error", "lifecycle/absent", func(_ *testing.T, m *mutant) {
		m.stat = func(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
			e, err := m.Backend.Stat(ctx, r, p)
			if backend.ProvesGone(err) {
				err = errors.New("404")
			}
			return e, err
		}
	}},
	{"delete of an absent sandbox fails", "lifecycle/absent", func(_ *testing.T, m *mutant) {
		m.del = func(ctx context.Context, r backend.Ref) error {
			if _, err := m.Backend.Get(ctx, r); err != nil {
				return err
			}
			return m.Backend.Delete(ctx, r)
		}
	}},
	{"a snapshot is never listed", "optional/snapshot", func(_ *testing.T, m *mutant) {
		m.snaps = func(context.Context, string, map[string]string) ([]backend.Snapshot, error) { return nil, nil }
	}},
	{"snapshots are listed whatever their labels", "optional/snapshot", func(_ *testing.T, m *mutant) {
		m.snaps = func(ctx context.Context, config string, _ map[string]string) ([]backend.Snapshot, error) {
			return m.Backend.ListSnapshots(ctx, config, nil)
		}
	}},
	{"who leaves a detached run ends it", "optional/detached", func(_ *testing.T, m *mutant) {
		m.attach = func(ctx context.Context, r backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
			res, err := m.Backend.AttachRun(ctx, r, id, live)
			if ctx.Err() != nil {
				_ = m.Backend.KillRun(context.WithoutCancel(ctx), r, id)
			}
			return res, err
		}
	}},
	{"an unknown run is a sandbox that is gone", "optional/detached_absent", func(_ *testing.T, m *mutant) {
		m.attach = func(ctx context.Context, r backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
			res, err := m.Backend.AttachRun(ctx, r, id, live)
			var e *backend.Error
			if errors.As(err, &e) {
				e.Subject = backend.SubjectSandbox
			}
			return res, err
		}
	}},
	{"watching goes on without a listener", "optional/watch", func(_ *testing.T, m *mutant) {
		m.watch = func(ctx context.Context, r backend.Ref, root string, rec bool, fn func(backend.WatchEvent) error) error {
			return m.Backend.Watch(ctx, r, root, rec, func(e backend.WatchEvent) error { _ = fn(e); return nil })
		}
	}},
	{"a terminal's exit is not known", "optional/terminal", func(_ *testing.T, m *mutant) {
		m.term = func(ctx context.Context, s backend.TerminalSpec) (backend.Terminal, error) {
			term, err := m.Backend.OpenTerminal(ctx, s)
			return noExit{term}, err
		}
	}},
}
