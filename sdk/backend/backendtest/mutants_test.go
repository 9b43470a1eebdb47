package backendtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Mutants are the reference backend with one mistake each, of the kind that
// backends make. The kit is only as good as what it catches.

const mutantEnv = "CAISSON_KIT_MUTANT"

// mutant is a backend whose methods a test replaces.
type mutant struct {
	*hostbackend.Backend
	dir string

	info   func(backend.Info) backend.Info
	get    func(context.Context, backend.Ref) (backend.Sandbox, error)
	create func(context.Context, backend.CreateSpec) (backend.Sandbox, error)
	list   func(context.Context, backend.ListFilter) ([]backend.Sandbox, error)
	del    func(context.Context, backend.Ref) error
	closed func(context.Context, string) error
	read   func(context.Context, backend.Ref, string) (io.ReadCloser, backend.Entry, error)
	write  func(context.Context, backend.Ref, string, backend.WriteOptions, io.Reader) (backend.Entry, error)
	stat   func(context.Context, backend.Ref, string) (backend.Entry, error)
	walk   func(context.Context, backend.WalkRequest) (backend.WalkResult, error)
	ls     func(context.Context, backend.Ref, string) ([]backend.Entry, error)
	remove func(context.Context, backend.Ref, string) error
	run    func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error)
	exec   func(context.Context, backend.ExecRequest) (backend.ExecResult, error)
	cmd    func(context.Context, generic.Command, generic.Output) (generic.Result, error)
}

func newMutant(dir string) *mutant {
	b := hostbackend.New(dir)
	m := &mutant{
		Backend: b, dir: dir, info: func(i backend.Info) backend.Info { return i },
		get: b.Get, create: b.Create, list: b.List, del: b.Delete, closed: b.CloseConfig, read: b.ReadFile, write: b.WriteFile,
		stat: b.Stat, walk: b.Walk, ls: b.ListDir, remove: b.Remove, exec: b.Exec, cmd: b.Execute,
	}
	m.run = generic.New(m, generic.Options{}).Run
	return m
}

func (m *mutant) Info(ctx context.Context) (backend.Info, error) {
	i, err := m.Backend.Info(ctx)
	return m.info(i), err
}

func (m *mutant) Get(ctx context.Context, r backend.Ref) (backend.Sandbox, error) {
	return m.get(ctx, r)
}

func (m *mutant) Create(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
	return m.create(ctx, s)
}

func (m *mutant) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	return m.list(ctx, f)
}
func (m *mutant) Delete(ctx context.Context, r backend.Ref) error  { return m.del(ctx, r) }
func (m *mutant) CloseConfig(ctx context.Context, id string) error { return m.closed(ctx, id) }

func (m *mutant) ReadFile(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	return m.read(ctx, r, p)
}

func (m *mutant) WriteFile(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
	return m.write(ctx, r, p, o, c)
}

func (m *mutant) Stat(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
	return m.stat(ctx, r, p)
}

func (m *mutant) Walk(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
	return m.walk(ctx, r)
}

func (m *mutant) ListDir(ctx context.Context, r backend.Ref, p string) ([]backend.Entry, error) {
	return m.ls(ctx, r, p)
}

func (m *mutant) Remove(ctx context.Context, r backend.Ref, p string) error {
	return m.remove(ctx, r, p)
}

func (m *mutant) Run(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	return m.run(ctx, s, live)
}

func (m *mutant) Exec(ctx context.Context, r backend.ExecRequest) (backend.ExecResult, error) {
	return m.exec(ctx, r)
}

func (m *mutant) Execute(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
	return m.cmd(ctx, c, out)
}

// real is where a path of a sandbox is on this machine.
func (m *mutant) real(t *testing.T, path string) string {
	found, err := filepath.Glob(filepath.Join(m.dir, "box*", path))
	if err != nil || len(found) != 1 {
		t.Logf("%q is %d files here", path, len(found))
		return filepath.Join(m.dir, "nowhere")
	}
	return found[0]
}

// result changes what a run came to.
func (m *mutant) result(change func(backend.RunSpec, *backend.RunResult)) {
	inner := m.run
	m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
		res, err := inner(ctx, s, live)
		change(s, &res)
		return res, err
	}
}

// wrapIO changes what a run tells.
type wrapIO struct {
	backend.RunIO
	started func(backend.RunIO) error
	stdout  func(backend.RunIO, []byte) error
}

func (w wrapIO) Started() error {
	if w.started == nil {
		return w.RunIO.Started()
	}
	return w.started(w.RunIO)
}

func (w wrapIO) Stdout(p []byte) error {
	if w.stdout == nil {
		return w.RunIO.Stdout(p)
	}
	return w.stdout(w.RunIO, p)
}

func (m *mutant) tells(w wrapIO) {
	inner := m.run
	m.run = func(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
		w.RunIO = live
		return inner(ctx, s, w)
	}
}

type mutation struct {
	name string
	// caught is the test of the kit that has to fail.
	caught string
	mutate func(t *testing.T, m *mutant)
}

var mutations = []mutation{
	{"none", "", func(*testing.T, *mutant) {}},
	{"promises what it lacks", "info/capabilities", func(_ *testing.T, m *mutant) {
		m.info = func(i backend.Info) backend.Info {
			i.Capabilities = append(i.Capabilities, backend.CapSnapshots)
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
	{"an absent file is a sandbox that is gone", "files/absent", func(_ *testing.T, m *mutant) {
		m.read = func(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
			c, e, err := m.Backend.ReadFile(ctx, r, p)
			var be *backend.Error
			if errors.As(err, &be) && be.Kind == backend.KindNotFound {
				be.Subject, be.Plane = backend.SubjectSandbox, backend.PlaneControl
			}
			return c, e, err
		}
	}},
	{"read follows links", "refused/links", func(t *testing.T, m *mutant) {
		m.read = func(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
			f, err := os.Open(m.real(t, p))
			return f, backend.Entry{Path: p, Type: backend.EntryFile}, err
		}
	}},
	{"write follows links", "refused/links", func(t *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if info, err := os.Lstat(m.real(t, p)); err == nil && info.Mode().Type() == os.ModeSymlink && !strings.Contains(p, "out") && !strings.Contains(p, "up") {
				b, _ := io.ReadAll(c)
				return backend.Entry{Path: p}, os.WriteFile(m.real(t, p), b, 0o644)
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"links are files", "refused/links", func(_ *testing.T, m *mutant) {
		m.stat = func(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
			e, err := m.Backend.Stat(ctx, r, p)
			if e.Type == backend.EntryOther {
				e.Type = backend.EntryFile
			}
			return e, err
		}
	}},
	{"dots are cleaned away", "refused/paths", func(_ *testing.T, m *mutant) {
		m.stat = func(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
			return m.Backend.Stat(ctx, r, filepath.Clean("/"+p))
		}
	}},
	{"a cut upload is stored", "files/failed_write", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			b, err := io.ReadAll(c)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil // what io.ReadFull makes easy to get wrong
			}
			if err != nil {
				return backend.Entry{}, err
			}
			return m.Backend.WriteFile(ctx, r, p, o, bytes.NewReader(b))
		}
	}},
	{"a write truncates first", "files/failed_write", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if _, err := m.Backend.WriteFile(ctx, r, p, o, strings.NewReader("")); err != nil {
				return backend.Entry{}, err
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"too long a file is cut", "files/max_bytes", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			if o.MaxBytes > 0 {
				c = io.LimitReader(c, o.MaxBytes)
			}
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"exclusive is ignored", "files/exclusive", func(_ *testing.T, m *mutant) {
		m.write = func(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
			o.Exclusive = false
			return m.Backend.WriteFile(ctx, r, p, o, c)
		}
	}},
	{"walk is unsorted", "tree/walk", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			slices.Reverse(res.Entries)
			return res, err
		}
	}},
	{"walk hides that it was cut", "tree/walk_limits", func(_ *testing.T, m *mutant) {
		m.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			res, err := m.Backend.Walk(ctx, r)
			res.Truncated = false
			return res, err
		}
	}},
	{"list is unsorted", "tree/list", func(_ *testing.T, m *mutant) {
		m.ls = func(ctx context.Context, r backend.Ref, p string) ([]backend.Entry, error) {
			es, err := m.Backend.ListDir(ctx, r, p)
			slices.Reverse(es)
			return es, err
		}
	}},
	{"remove of an absent path fails", "files/absent", func(_ *testing.T, m *mutant) {
		m.remove = func(ctx context.Context, r backend.Ref, p string) error {
			if _, err := m.Backend.Stat(ctx, r, p); err != nil {
				return err
			}
			return m.Backend.Remove(ctx, r, p)
		}
	}},
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
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 400*time.Millisecond)
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

// TestMutant runs the kit against one mutant. It is started by TestKitCatches.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
	if i < 0 {
		t.Skip("no mutant is asked for")
	}
	h := inProcess(backendtest.Shell("sh"))
	h.Patience = 4 * time.Second
	h.New = func(t *testing.T) (backend.Backend, json.RawMessage) {
		m := newMutant(t.TempDir())
		mutations[i].mutate(t, m)
		return m, json.RawMessage(`{}`)
	}
	backendtest.Run(t, h)
}

// TestKitCatches proves that the kit finds each mistake, in the test that is
// about it, and finds none where there is none.
func TestKitCatches(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			only := "^TestMutant$/^backend$/^run$/^hello$"
			want := "--- FAIL: TestMutant "
			if m.caught != "" {
				group, test, _ := strings.Cut(m.caught, "/")
				only = "^TestMutant$/^backend$/^" + group + "$/^" + test + "$"
				want = "--- FAIL: TestMutant/backend/" + m.caught + " "
			}
			cmd := exec.Command(os.Args[0], "-test.run", only, "-test.v", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), mutantEnv+"="+m.name)
			out, err := cmd.CombinedOutput()
			if m.name == "none" {
				if err != nil {
					t.Errorf("the kit finds fault with a backend that works:\n%s", out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the kit does not catch it in %q: %v\n%s", m.caught, err, out)
			}
		})
	}
}
