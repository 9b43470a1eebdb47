package exec

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/language"
)

// shells is a backend for these tests: a sandbox is a directory, a program is a
// real process of /bin/sh in it. It isolates nothing.
type shells struct {
	t    *testing.T
	root string
	now  func() time.Time

	mu    sync.Mutex
	boxes map[string]*box

	// What happens before a call is carried out, for tests of failure.
	onCreate, onConnect, onList, onWrite, onRead func() error
	onRun                                        func(ctx context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool)
	// onOutput is called with each piece of output.
	onOutput                func()
	created, connects, runs atomic.Int64
}

type box struct {
	sb    backend.Sandbox
	dir   string
	index changes.Index
}

func newShells(t *testing.T, now func() time.Time) *shells {
	return &shells{t: t, root: t.TempDir(), now: now, boxes: make(map[string]*box)}
}

func hook(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (s *shells) get(ref backend.Ref) (*box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[ref.ID]
	if b == nil || b.sb.Config != ref.Config {
		return nil, &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl, Message: "no such sandbox"}
	}
	return b, nil
}

// open is get for work on files.
func (s *shells) open(ref backend.Ref, p string) (*box, *os.Root, string, error) {
	b, err := s.get(ref)
	if err != nil {
		return nil, nil, "", err
	}
	s.mu.Lock()
	paused := b.sb.State == backend.StatePaused
	s.mu.Unlock()
	if paused {
		return nil, nil, "", &backend.Error{Kind: backend.KindConflict, Message: "the sandbox is paused"}
	}
	rel := "."
	if p != "" && p != backend.DataDir {
		var ok bool
		if rel, ok = strings.CutPrefix(p, backend.DataDir+"/"); !ok {
			return nil, nil, "", backend.Errorf(backend.KindInvalidRequest, "", "path %q", p)
		}
	}
	root, err := os.OpenRoot(b.dir)
	return b, root, rel, err
}

func (s *shells) Info(context.Context) (backend.Info, error) { return shellsInfo, nil }

var shellsInfo = backend.Info{
	Name: "shells", Version: "1.0.0",
	Languages: []backend.LanguageSupport{{ID: "bash", Toolchain: "sh"}, {ID: "c", Toolchain: "sh"}},
}

func (s *shells) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true}, nil
}
func (s *shells) OpenConfig(context.Context, string, json.RawMessage) error { return nil }
func (s *shells) CloseConfig(context.Context, string) error                 { return nil }
func (s *shells) Probe(context.Context, json.RawMessage) (backend.ProbeReport, error) {
	return backend.ProbeReport{OK: true}, nil
}

func (s *shells) Create(_ context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	if err := hook(s.onCreate); err != nil {
		return backend.Sandbox{}, err
	}
	s.created.Add(1)
	b := &box{dir: filepath.Join(s.root, rand.Text())}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return backend.Sandbox{}, err
	}
	b.sb = backend.Sandbox{
		Ref: backend.Ref{Config: spec.Config, ID: "box-" + rand.Text()}, State: backend.StateRunning,
		Metadata: spec.Metadata, Created: s.now(), LastActive: s.now(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boxes[b.sb.ID] = b
	return b.sb, nil
}

func (s *shells) Connect(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if err := hook(s.onConnect); err != nil {
		return backend.Sandbox{}, err
	}
	s.connects.Add(1)
	b, err := s.get(ref)
	if err != nil {
		return backend.Sandbox{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.sb.State, b.sb.LastActive = backend.StateRunning, s.now()
	return b.sb, nil
}

func (s *shells) Get(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	b, err := s.get(ref)
	if err != nil {
		return backend.Sandbox{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.sb, nil
}

func (s *shells) List(_ context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	if err := hook(s.onList); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []backend.Sandbox
	for _, b := range s.boxes {
		if f.Matches(b.sb) {
			out = append(out, b.sb)
		}
	}
	return out, nil
}

func (s *shells) Delete(_ context.Context, ref backend.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[ref.ID]; b != nil {
		delete(s.boxes, ref.ID)
		return os.RemoveAll(b.dir)
	}
	return nil
}

func (s *shells) Run(ctx context.Context, spec backend.RunSpec, rio backend.RunIO) (res backend.RunResult, err error) {
	if err := spec.Check(); err != nil {
		return res, err
	}
	s.runs.Add(1)
	if s.onRun != nil {
		if res, err, done := s.onRun(ctx, spec, rio); done {
			return res, err
		}
	}
	b, root, _, err := s.open(spec.Ref, "")
	if err != nil {
		return res, err
	}
	defer root.Close()
	for k, in := range spec.Inputs {
		if err := s.put(ctx, root, in, k, rio); err != nil {
			if !in.Optional {
				return res, err
			}
			res.MissingInputs = append(res.MissingInputs, in.Path)
		}
	}
	dir, err := os.MkdirTemp(s.root, "program-")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, spec.Program.File), spec.Program.Source, 0o600); err != nil {
		return res, err
	}
	scan := changes.ScanOptions{Exclude: spec.Collect.Exclude}
	before, err := b.index.Scan(ctx, root, scan)
	if err != nil {
		return res, err
	}
	if err := rio.Started(); err != nil {
		return res, err
	}
	began := time.Now()
	s.steps(ctx, b, dir, spec, rio, &res)
	res.Usage.Wall = time.Since(began)
	after, err := b.index.Scan(context.WithoutCancel(ctx), root, scan)
	if err != nil {
		after = nil
	}
	d := changes.Diff(before, after, spec.Collect)
	res.Changed, res.Deleted, res.Skipped, res.CollectFailed = d.Changed, d.Deleted, d.Skipped, d.Failed
	res.Usage.BytesOut = res.StdoutBytes + res.StderrBytes
	return res, nil
}

func (s *shells) put(ctx context.Context, root *os.Root, in backend.Input, k int, rio backend.RunIO) error {
	var r io.Reader = bytes.NewReader(in.Inline)
	switch {
	case in.Chunked:
		var err error
		if r, err = rio.Input(k); err != nil {
			return err
		}
	case in.CopyFrom != nil:
		s.mu.Lock()
		from := s.boxes[in.CopyFrom.ID]
		s.mu.Unlock()
		if from == nil {
			return errors.New("no such sandbox")
		}
		b, err := os.ReadFile(filepath.Join(from.dir, strings.TrimPrefix(in.CopyFrom.Path, backend.DataDir)))
		if err != nil {
			return err
		}
		if in.CopyFrom.SHA256 != "" && in.CopyFrom.SHA256 != digest(b) {
			return errors.New("changed")
		}
		r = bytes.NewReader(b)
	}
	_, err := write(root, strings.TrimPrefix(in.Path, backend.DataDir+"/"), 0o644, r)
	return err
}

func write(root *os.Root, rel string, mode fs.FileMode, r io.Reader) (string, error) {
	if dir := path.Dir(rel); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	tmp := ".tmp-" + rand.Text()
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), r)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(tmp, rel)
	}
	if err != nil {
		return "", errors.Join(err, root.Remove(tmp))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// stream bounds one output stream like a backend has to.
type stream struct {
	limit, kept, total int64
	mu                 *sync.Mutex
	out                func([]byte) error
}

func (w *stream) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total += int64(len(p))
	if n := min(int64(len(p)), w.limit-w.kept); n > 0 {
		w.kept += n
		if err := w.out(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (s *shells) steps(ctx context.Context, b *box, dir string, spec backend.RunSpec, rio backend.RunIO, res *backend.RunResult) {
	var mu sync.Mutex
	stdout := &stream{limit: spec.Limits.StdoutBytes, mu: &mu, out: func(p []byte) error {
		if s.onOutput != nil {
			s.onOutput()
		}
		return rio.Stdout(p)
	}}
	stderr := &stream{limit: spec.Limits.StderrBytes, mu: &mu, out: rio.Stderr}
	wall, cancel := context.WithTimeout(ctx, spec.Limits.Wall)
	defer cancel()
	for k, step := range spec.Steps {
		argv := make([]string, len(step.Argv))
		for j, a := range step.Argv {
			argv[j] = strings.ReplaceAll(a, language.Dir, dir)
		}
		cmd := osexec.CommandContext(wall, argv[0], slices.Concat(argv[1:], step.Args)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, stdout, stderr
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 5 * time.Second
		err := cmd.Run()
		res.Stop, res.Step = backend.StopExit, k
		if exit, ok := errors.AsType[*osexec.ExitError](err); ok {
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				res.ExitCode, res.Signal = 128+int(ws.Signal()), "SIG"+strings.ToUpper(strings.TrimPrefix(ws.Signal().String(), "SIG"))
				if ws.Signal() == syscall.SIGSEGV {
					res.Signal = "SIGSEGV"
				}
			} else {
				res.ExitCode = exit.ExitCode()
			}
		}
		if wall.Err() != nil {
			res.Stop, res.ExitCode, res.Signal = backend.StopTimeout, -1, ""
			if ctx.Err() != nil {
				res.Stop = backend.StopCanceled
			}
		}
		if err != nil {
			break
		}
	}
	res.StdoutBytes, res.StderrBytes = stdout.total, stderr.total
	res.StdoutTruncated, res.StderrTruncated = stdout.total > stdout.kept, stderr.total > stderr.kept
}

func (s *shells) Exec(context.Context, backend.ExecRequest) (backend.ExecResult, error) {
	return backend.ExecResult{}, backend.Errorf(backend.KindUnsupported, "Exec", "not here")
}

func (s *shells) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	b, root, _, err := s.open(req.Ref, req.Root)
	if err != nil {
		return backend.WalkResult{}, err
	}
	defer root.Close()
	snap, err := b.index.Scan(ctx, root, changes.ScanOptions{Exclude: req.Exclude})
	if err != nil {
		return backend.WalkResult{}, err
	}
	var res backend.WalkResult
	for p, f := range snap.Files {
		res.Entries = append(res.Entries, backend.Entry{
			Path: p, Type: backend.EntryFile, Size: f.Size, Modified: time.Unix(0, f.Modified), Mode: f.Mode, SHA256: f.SHA256,
		})
	}
	slices.SortFunc(res.Entries, func(a, b backend.Entry) int { return strings.Compare(a.Path, b.Path) })
	return res, nil
}

func (s *shells) ReadFile(_ context.Context, ref backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	if err := hook(s.onRead); err != nil {
		return nil, backend.Entry{}, err
	}
	_, root, rel, err := s.open(ref, p)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	defer root.Close()
	f, err := root.Open(rel)
	if err != nil {
		return nil, backend.Entry{}, &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectFile, Message: "no such file"}
	}
	st, err := f.Stat()
	if err != nil {
		return nil, backend.Entry{}, err
	}
	return f, backend.Entry{Path: p, Type: backend.EntryFile, Size: st.Size(), Modified: st.ModTime()}, nil
}

func (s *shells) WriteFile(_ context.Context, ref backend.Ref, p string, o backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	if err := hook(s.onWrite); err != nil {
		return backend.Entry{}, err
	}
	_, root, rel, err := s.open(ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	defer root.Close()
	mode := fs.FileMode(0o644)
	if o.Mode != 0 {
		mode = fs.FileMode(o.Mode)
	}
	sum, err := write(root, rel, mode, r)
	if err != nil {
		return backend.Entry{}, backend.Errorf(backend.KindInvalidRequest, "WriteFile", "%w", err)
	}
	st, err := root.Lstat(rel)
	if err != nil {
		return backend.Entry{}, err
	}
	return backend.Entry{Path: p, Type: backend.EntryFile, Size: st.Size(), Modified: st.ModTime(), SHA256: sum}, nil
}

func (s *shells) Stat(_ context.Context, ref backend.Ref, p string) (backend.Entry, error) {
	_, root, rel, err := s.open(ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	defer root.Close()
	st, err := root.Lstat(rel)
	if err != nil {
		return backend.Entry{}, &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectFile, Message: "no such file"}
	}
	return backend.Entry{Path: p, Type: backend.EntryFile, Size: st.Size()}, nil
}

func (s *shells) ListDir(context.Context, backend.Ref, string) ([]backend.Entry, error) {
	return nil, backend.Errorf(backend.KindUnsupported, "ListDir", "not here")
}

func (s *shells) MakeDir(context.Context, backend.Ref, string) error {
	return backend.Errorf(backend.KindUnsupported, "MakeDir", "not here")
}

func (s *shells) Remove(_ context.Context, ref backend.Ref, p string) error {
	_, root, rel, err := s.open(ref, p)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(rel)
}

// live returns the sandboxes that exist.
func (s *shells) live() []backend.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []backend.Sandbox
	for _, b := range s.boxes {
		out = append(out, b.sb)
	}
	return out
}

// edit changes the sandbox of a session behind everybody's back.
func (s *shells) edit(session string, f func(b *box)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		if b.sb.Metadata.Session == session {
			f(b)
			return
		}
	}
	s.t.Helper()
	s.t.Fatalf("no sandbox of session %s", session)
}

func (s *shells) pause(session string) {
	s.edit(session, func(b *box) { b.sb.State = backend.StatePaused })
}

func (s *shells) content(session, name string) string {
	s.t.Helper()
	var out string
	s.edit(session, func(b *box) {
		raw, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil {
			out = fmt.Sprint(err)
			return
		}
		out = string(raw)
	})
	return out
}

// leftovers fails the test when something but sandboxes is on the disk.
func (s *shells) leftovers() {
	s.t.Helper()
	err := filepath.WalkDir(s.root, func(p string, _ fs.DirEntry, err error) error {
		if base := filepath.Base(p); strings.HasPrefix(base, ".tmp-") || strings.HasPrefix(base, "program-") {
			s.t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}
