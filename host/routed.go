package host

import (
	"context"
	"io"
	"net"
	"slices"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// everything is a backend with every optional part, as clients of processes are:
// which of them count is decided by what the plugin declares.
type everything interface {
	backend.Backend
	backend.TokenConnector
	backend.KeepAliver
	backend.Pauser
	backend.Snapshotter
	backend.TemplateCatalog
	backend.VolumeManager
	backend.TerminalOpener
	backend.PortDialer
	backend.DetachedRunner
	backend.Watcher
}

// routed leads every call about a sandbox to the version that can serve it: the one
// in service, or one that stays. What is about no sandbox is asked of the process that
// was borrowed. It lives for one loan.
type routed struct {
	everything // of the process that was borrowed
	unit       *unit
	now        *program // the version in service
	self       *stay    // of that version, should it be sent back; may be nil
	stays      []*stay
}

func newRouted(now *program, u *unit, self *stay, stays []*stay) *routed {
	return &routed{everything: u.backend, unit: u, now: now, self: self, stays: stays}
}

// live is the running process of the version in service: a loan outlives the process
// that it began with, and a call that was not sent yet waits for the next one as a new
// loan would.
func (r *routed) live(ctx context.Context) (everything, error) {
	if r.unit.Serving() {
		return r.everything, nil
	}
	u, err := r.now.sup.Unit(ctx)
	if err != nil {
		return nil, r.now.unavailable(err)
	}
	return u.backend, nil
}

// of is the running backend of a version that stays.
func (s *stay) of(ctx context.Context) (everything, error) {
	u, err := s.program.sup.Unit(ctx)
	if err != nil {
		return nil, s.program.unavailable(err)
	}
	return u.backend, nil
}

// to finds who serves a sandbox. What is not known yet is asked for, and nobody is
// believed who only doubts.
func (r *routed) to(ctx context.Context, ref backend.Ref) (everything, *stay, error) {
	if len(r.stays) == 0 || r.now.owns(ref) {
		b, err := r.live(ctx)
		return b, nil, err
	}
	for _, s := range r.stays {
		if s.has(ref) {
			b, err := s.of(ctx)
			return b, s, err
		}
	}
	serves, err := r.live(ctx)
	if err != nil {
		return nil, nil, err
	}
	sb, err := serves.Get(ctx, ref)
	switch {
	case err == nil && r.now.reads(r.now.schemaOf(sb)):
		r.now.own(ref)
		return serves, nil, nil
	case err != nil && !backend.ProvesGone(err):
		return serves, nil, nil // which says so itself
	}
	for _, s := range r.stays {
		b, err := s.of(ctx)
		if err != nil {
			return nil, nil, err
		}
		sb, err := b.Get(ctx, ref)
		switch {
		case err == nil && !r.now.reads(s.program.schemaOf(sb)):
			s.add(ref)
			return b, s, nil
		case err != nil && !backend.ProvesGone(err):
			return nil, nil, err
		}
	}
	return serves, nil, nil
}

// made notes a sandbox of the version in service.
func (r *routed) made(ref backend.Ref) {
	if len(r.stays) == 0 && r.self == nil {
		return
	}
	for _, s := range r.stays {
		s.forget(ref) // one of that name was there before
	}
	r.now.own(ref)
	if r.self != nil {
		r.self.add(ref)
	}
}

// ended notes that a sandbox is gone.
func (r *routed) ended(ref backend.Ref) {
	r.now.disown(ref)
	for _, s := range r.stays {
		s.forget(ref)
	}
	if r.self != nil {
		r.self.forget(ref)
	}
}

// on calls f with who serves ref.
func on[T any](ctx context.Context, r *routed, ref backend.Ref, f func(everything) (T, error)) (T, error) {
	b, _, err := r.to(ctx, ref)
	if err != nil {
		var none T
		return none, err
	}
	out, err := f(b)
	if err != nil && backend.ProvesGone(err) {
		r.ended(ref)
	}
	return out, err
}

func done(err error) (struct{}, error) { return struct{}{}, err }

// Create makes a sandbox on the version in service, unless the session has one that
// another version serves.
func (r *routed) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	f := backend.ListFilter{Config: spec.Config, Session: spec.Session}
	kept, err := r.listStays(ctx, f)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if len(kept) > 0 {
		return backend.Sandbox{}, backend.Errorf(backend.KindConflict, "Create", "the session has a sandbox, which another version of the plugin serves")
	}
	serves, err := r.live(ctx)
	if err != nil {
		return backend.Sandbox{}, err
	}
	sb, err := serves.Create(ctx, spec)
	if err == nil {
		r.made(sb.Ref)
	}
	return sb, err
}

// List joins what every version lists of what is its own. What a version says it keeps
// in a state that it does not serve is left alone: nobody may take it for theirs, or
// sweep it.
func (r *routed) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	serves, err := r.live(ctx)
	if err != nil {
		return nil, err
	}
	all, err := serves.List(ctx, f)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(sb backend.Sandbox) bool { return !r.now.reads(r.now.schemaOf(sb)) })
	if len(r.stays) == 0 {
		return all, nil
	}
	kept, err := r.listStays(ctx, f)
	if err != nil {
		return nil, err
	}
	theirs := make(map[backend.Ref]bool, len(kept))
	for _, sb := range kept {
		theirs[sb.Ref] = true
	}
	for _, sb := range all {
		if !theirs[sb.Ref] {
			kept = append(kept, sb)
		}
	}
	return kept, nil
}

// listStays lists what the versions that stay serve. One that cannot be asked is an
// error: a sandbox that is not listed counts as gone.
func (r *routed) listStays(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	var out []backend.Sandbox
	seen := make(map[backend.Ref]bool)
	for _, s := range r.stays {
		b, err := s.of(ctx)
		if err != nil {
			return nil, err
		}
		all, err := b.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, sb := range all {
			if f.Matches(sb) && !seen[sb.Ref] && !r.now.owns(sb.Ref) && !r.now.reads(s.program.schemaOf(sb)) {
				seen[sb.Ref] = true
				s.add(sb.Ref)
				out = append(out, sb)
			}
		}
	}
	return out, nil
}

func (r *routed) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return on(ctx, r, ref, func(b everything) (backend.Sandbox, error) { return b.Connect(ctx, ref) })
}

func (r *routed) ConnectToken(ctx context.Context, ref backend.Ref, token string) (backend.Sandbox, error) {
	return on(ctx, r, ref, func(b everything) (backend.Sandbox, error) { return b.ConnectToken(ctx, ref, token) })
}

func (r *routed) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return on(ctx, r, ref, func(b everything) (backend.Sandbox, error) { return b.Get(ctx, ref) })
}

func (r *routed) Delete(ctx context.Context, ref backend.Ref) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.Delete(ctx, ref)) })
	if err == nil {
		r.ended(ref)
	}
	return err
}

func (r *routed) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	return on(ctx, r, req.Ref, func(b everything) (backend.ExecResult, error) { return b.Exec(ctx, req) })
}

func (r *routed) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	return on(ctx, r, req.Ref, func(b everything) (backend.WalkResult, error) { return b.Walk(ctx, req) })
}

func (r *routed) ReadFile(ctx context.Context, ref backend.Ref, path string) (content io.ReadCloser, e backend.Entry, err error) {
	_, err = on(ctx, r, ref, func(b everything) (struct{}, error) {
		content, e, err = b.ReadFile(ctx, ref, path)
		return done(err)
	})
	return content, e, err
}

func (r *routed) WriteFile(ctx context.Context, ref backend.Ref, path string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
	return on(ctx, r, ref, func(b everything) (backend.Entry, error) { return b.WriteFile(ctx, ref, path, o, c) })
}

func (r *routed) Stat(ctx context.Context, ref backend.Ref, path string) (backend.Entry, error) {
	return on(ctx, r, ref, func(b everything) (backend.Entry, error) { return b.Stat(ctx, ref, path) })
}

func (r *routed) ListDir(ctx context.Context, ref backend.Ref, path string) ([]backend.Entry, error) {
	return on(ctx, r, ref, func(b everything) ([]backend.Entry, error) { return b.ListDir(ctx, ref, path) })
}

func (r *routed) MakeDir(ctx context.Context, ref backend.Ref, path string) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.MakeDir(ctx, ref, path)) })
	return err
}

func (r *routed) Remove(ctx context.Context, ref backend.Ref, path string) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.Remove(ctx, ref, path)) })
	return err
}

func (r *routed) KeepAlive(ctx context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	return on(ctx, r, ref, func(b everything) (time.Time, error) { return b.KeepAlive(ctx, ref, ttl) })
}

func (r *routed) Pause(ctx context.Context, ref backend.Ref) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.Pause(ctx, ref)) })
	return err
}

func (r *routed) Snapshot(ctx context.Context, ref backend.Ref, name string, labels map[string]string) (backend.Snapshot, error) {
	return on(ctx, r, ref, func(b everything) (backend.Snapshot, error) { return b.Snapshot(ctx, ref, name, labels) })
}

func (r *routed) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	return on(ctx, r, spec.Ref, func(b everything) (backend.Terminal, error) { return b.OpenTerminal(ctx, spec) })
}

func (r *routed) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	return on(ctx, r, ref, func(b everything) (net.Conn, error) { return b.DialPort(ctx, ref, port) })
}

func (r *routed) KillRun(ctx context.Context, ref backend.Ref, id string) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.KillRun(ctx, ref, id)) })
	return err
}

func (r *routed) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	_, err := on(ctx, r, ref, func(b everything) (struct{}, error) { return done(b.Watch(ctx, ref, root, recursive, fn)) })
	return err
}

func (r *routed) AttachRun(ctx context.Context, ref backend.Ref, id string, live backend.RunIO) (backend.RunResult, error) {
	return on(ctx, r, ref, func(b everything) (backend.RunResult, error) { return b.AttachRun(ctx, ref, id, live) })
}

func (r *routed) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	return on(ctx, r, spec.Ref, func(b everything) (backend.RunResult, error) {
		c, err := r.carry(ctx, b, spec, live)
		if err != nil {
			return backend.RunResult{}, err
		}
		defer c.close()
		res, err := b.Run(ctx, c.spec, c)
		res.MissingInputs = append(res.MissingInputs, c.missing...)
		return res, err
	})
}

func (r *routed) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	_, err := on(ctx, r, spec.Ref, func(b everything) (struct{}, error) {
		c, err := r.carry(ctx, b, spec.RunSpec, live)
		if err != nil {
			return struct{}{}, err
		}
		defer c.close()
		return done(b.StartRun(ctx, backend.DetachedStart{RunSpec: c.spec, TTL: spec.TTL}, c))
	})
	return err
}
