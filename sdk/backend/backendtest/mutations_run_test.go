package backendtest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// runMutations are mistakes with programs, and none at all.
var runMutations = []mutation{
	{"none", "", func(*testing.T, *mutant) {}},
	{"starts twice", "run/hello", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{started: func(io backend.RunIO) error { _ = io.Started(); return io.Started() }})
	}},
	{"writes before it starts", "run/hello", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{started: func(io backend.RunIO) error { _ = io.Stdout(nil); return io.Started() }})
	}},
	{"never starts", "run/hello", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{started: func(backend.RunIO) error { return nil }})
	}},
	{"every failure is status 1", "run/exit_status", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) { r.ExitCode = min(r.ExitCode, 1) })
	}},
	{"a failed program's files are lost", "run/exit_status", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) {
			if r.ExitCode != 0 {
				r.Changed = nil
			}
		})
	}},
	{"the marker is replaced in arguments", "run/arguments", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			for i := range c.Argv {
				c.Argv[i] = strings.ReplaceAll(c.Argv[i], "{dir}", c.ProgramDir)
			}
			return inner(ctx, c, out)
		}
	}},
	{"empty arguments are lost", "run/arguments", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			c.Argv = slices.DeleteFunc(c.Argv, func(a string) bool { return a == "" })
			return inner(ctx, c, out)
		}
	}},
	{"the host's environment leaks", "run/environment", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			for _, kv := range os.Environ() {
				if k, v, _ := strings.Cut(kv, "="); c.Env[k] == "" && k != "" {
					c.Env[k] = v
				}
			}
			return inner(ctx, c, out)
		}
	}},
	{"stdin stays open", "run/no_stdin", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			if c.Stdin == nil {
				r, w := io.Pipe()
				context.AfterFunc(ctx, func() { _ = w.Close() })
				c.Stdin = r
			}
			return inner(ctx, c, out)
		}
	}},
	{"/tmp is kept", "run/fresh_tmp", func(_ *testing.T, m *mutant) {
		m.run = generic.New(m, generic.Options{KeepTmp: true}).Run
	}},
	{"output comes at the end", "run/live_output", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			var all []byte
			res, err := inner(ctx, s, wrapIO{RunIO: live, stdout: func(_ backend.RunIO, p []byte) error {
				all = append(all, p...)
				return nil
			}})
			return res, errors.Join(err, live.Stdout(all))
		}
	}},
	{"output is not capped", "run/output_caps", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			s.Limits.StdoutBytes = 0
			return inner(ctx, s, live)
		}
	}},
	{"capped output is not counted", "run/output_caps", func(_ *testing.T, m *mutant) {
		m.result(func(s backend.RunSpec, r *backend.RunResult) {
			r.StdoutBytes = min(r.StdoutBytes, s.Limits.StdoutBytes)
		})
	}},
	{"runs of one session overlap", "run/concurrent", func(_ *testing.T, m *mutant) {
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			return generic.New(m, generic.Options{KeepTmp: true}).Run(ctx, s, live)
		}
	}},
	{"inputs are reported", "changes/inputs", func(_ *testing.T, m *mutant) {
		m.result(func(s backend.RunSpec, r *backend.RunResult) {
			for _, in := range s.Inputs {
				if e, err := m.Backend.Stat(context.Background(), s.Ref, in.Path); err == nil {
					e.SHA256 = strings.Repeat("0", 64)
					r.Changed = append(r.Changed, e)
				}
			}
		})
	}},
	{"deleted files are not reported", "changes/deleted", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) { r.Deleted = nil })
	}},
	{"sizes decide", "changes/same_size", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			for i, e := range res.Entries {
				if e.SHA256 != "" {
					res.Entries[i].SHA256 = strings.Repeat(string("0123456789abcdef"[e.Size%16]), 64)
				}
			}
			return res, err
		}
	}},
	{"times decide", "changes/same_content", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			for i, e := range res.Entries {
				if e.SHA256 != "" {
					digits := strings.Map(func(r rune) rune {
						if r < '0' || r > '9' {
							return -1
						}
						return r
					}, e.Modified.Format("20060102150405.000000000"))
					res.Entries[i].SHA256 = (digits + strings.Repeat("0", 64))[:64]
				}
			}
			return res, err
		}
	}},
	{"excluded names are reported", "changes/exclude", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			s.Collect.Exclude = nil
			return inner(ctx, s, live)
		}
	}},
	{"what is left out is not counted", "changes/limits", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) { r.Skipped = 0 })
	}},
	{"a pinned digest is ignored", "inputs/copy_pinned", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			s.Inputs = slices.Clone(s.Inputs)
			for i := range s.Inputs {
				if c := s.Inputs[i].CopyFrom; c != nil {
					s.Inputs[i].CopyFrom = &backend.CopySource{ID: c.ID, Path: c.Path}
				}
			}
			return inner(ctx, s, live)
		}
	}},
	{"a missing source looks like a sandbox that is gone", "inputs/copy_missing", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			res, err := inner(ctx, s, live)
			var e *backend.Error
			if errors.As(err, &e) && e.Kind == backend.KindNotFound {
				e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
			}
			return res, err
		}
	}},
	{"a timeout is an error", "stop/timeout", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			res, err := inner(ctx, s, live)
			if res.Stop == backend.StopTimeout {
				return backend.RunResult{}, backend.Errorf(backend.KindTimeout, "Run", "timed out")
			}
			return res, err
		}
	}},
	{"a timeout has the status of a signal", "stop/timeout", func(_ *testing.T, m *mutant) {
		m.result(func(_ backend.RunSpec, r *backend.RunResult) {
			if r.Stop == backend.StopTimeout {
				r.ExitCode = 137
			}
		})
	}},
	{"each step has the whole time", "stop/timeout_of_all_steps", func(_ *testing.T, m *mutant) {
		inner := m.cmd
		m.cmd = func(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 800*time.Millisecond)
			defer cancel()
			return inner(ctx, c, out)
		}
	}},
	{"who cancels gets an error", "stop/cancel", func(_ *testing.T, m *mutant) {
		inner := m.run
		m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
			res, err := inner(ctx, s, live)
			if ctx.Err() != nil {
				return backend.RunResult{}, ctx.Err()
			}
			return res, err
		}
	}},
	{"a run goes on without listeners", "stop/listener_gone", func(_ *testing.T, m *mutant) {
		m.tells(wrapIO{stdout: func(io backend.RunIO, p []byte) error { _ = io.Stdout(p); return nil }})
	}},
	{"a command outlives its caller", "context/exec", func(_ *testing.T, m *mutant) {
		m.exec = func(ctx context.Context, r backend.ExecRequest) (backend.ExecResult, error) {
			r.Timeout = 2 * time.Second
			return m.Backend.Exec(context.WithoutCancel(ctx), r)
		}
	}},
	{"goroutines are left", "", func(t *testing.T, m *mutant) {
		end := make(chan struct{})
		t.Cleanup(func() { time.AfterFunc(5*time.Second, func() { close(end) }) })
		go func() { <-end }()
	}},
}
