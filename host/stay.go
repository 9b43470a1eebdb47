package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// stay is a program that left and goes on serving the sandboxes whose state the one
// in service does not: calls about them are led to it, one by one, until the last of
// them is gone. New sandboxes are never made with it, and nobody sweeps with it
// alone.
type stay struct {
	program *program
	// kick asks whether there is still a sandbox.
	kick chan struct{}

	mu    sync.Mutex
	known map[backend.Ref]struct{} // its sandboxes, as far as they are known
	// noted says that whatever it has made is among known.
	noted bool
	users int
	over  bool
	idle  chan struct{} // closed once it is over and nobody uses it
}

func newStay(p *program) *stay {
	return &stay{program: p, kick: make(chan struct{}, 1), known: make(map[backend.Ref]struct{}), idle: make(chan struct{})}
}

func (s *stay) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

func (s *stay) has(ref backend.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[ref]
	return ok
}

func (s *stay) add(ref backend.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[ref] = struct{}{}
}

// forget is told that a sandbox is gone.
func (s *stay) forget(ref backend.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[ref]; !ok {
		return
	}
	delete(s.known, ref)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *stay) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.users++
	return true
}

func (s *stay) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 && s.over {
		close(s.idle)
	}
}

// end lets nobody use it any more and waits for those who do.
func (s *stay) end(ctx context.Context) {
	s.mu.Lock()
	s.over = true
	if s.users == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
}

// schemaOf is the version of state in which a sandbox of p is kept.
func (p *program) schemaOf(sb backend.Sandbox) string {
	if sb.StateSchema != "" {
		return sb.StateSchema
	}
	if i := p.info.Load(); i != nil && len(i.StateSchema) > 0 {
		return i.StateSchema[0]
	}
	return ""
}

// reads reports whether p serves what is kept in a version of state.
func (p *program) reads(schema string) bool {
	i := p.info.Load()
	return schema == "" || i != nil && slices.Contains(i.StateSchema, schema)
}

// unread is a version of state in which p may keep sandboxes and next cannot serve
// them, empty when there is none.
func (p *program) unread(next *program) string {
	i := p.info.Load()
	if i == nil {
		return ""
	}
	for _, schema := range i.StateSchema {
		if !next.reads(schema) {
			return schema
		}
	}
	return ""
}

// look lists the sandboxes of s that next cannot serve, of the configs that next has.
func (s *stay) look(ctx context.Context, next *program) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	u, err := s.program.sup.Unit(ctx)
	if err != nil {
		return err
	}
	if !u.info.Has(backend.CapList) {
		return errors.New("it cannot list its sandboxes")
	}
	known := make(map[backend.Ref]struct{})
	for _, c := range s.program.configs() {
		if _, ok := next.config(c.ID); !ok {
			continue // nobody can reach them any more
		}
		f := backend.ListFilter{Config: c.ID}
		all, err := u.backend.List(ctx, f)
		if err != nil {
			return fmt.Errorf("list the sandboxes of config %q: %w", c.ID, err)
		}
		for _, sb := range all {
			if f.Matches(sb) && !next.reads(s.program.schemaOf(sb)) {
				known[sb.Ref] = struct{}{}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	return nil
}

// prepare makes ready for calls to go to next: what of old's sandboxes next cannot
// serve stays with old, and the other way round should next be sent back.
func (l *line) prepare(ctx context.Context, old, next *program) error {
	var add []*stay
	if schema := old.unread(next); schema != "" {
		s := newStay(old)
		if err := s.look(ctx, next); err != nil {
			return fmt.Errorf("it does not list state schema %q, and the version in service cannot say which sandboxes it keeps in it: %w", schema, err)
		}
		add = append(add, s)
	}
	if next.unread(old) != "" {
		s := newStay(next)
		s.noted = true // nobody calls it yet
		add = append(add, s)
	}
	l.change(func(now []*stay) []*stay { return append(add, now...) })
	return nil
}

// settle is told which of two programs is in service after all: nothing needs to be
// led to it.
func (l *line) settle(serves *program) {
	l.change(func(now []*stay) []*stay {
		return slices.DeleteFunc(now, func(s *stay) bool { return s.program == serves })
	})
}

func (l *line) change(f func([]*stay) []*stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := f(slices.Clone(*l.stays.Load()))
	l.stays.Store(&next)
}

// stayOf is who leads calls to p, nil when nobody does.
func (l *line) stayOf(p *program) *stay {
	for _, s := range *l.stays.Load() {
		if s.program == p {
			return s
		}
	}
	return nil
}

// borrow borrows what stays beside now.
func (l *line) borrow(now *program) []*stay {
	var out []*stay
	for _, s := range *l.stays.Load() {
		if (s.program != now) && s.use() {
			out = append(out, s)
		}
	}
	return out
}

// outlive returns when no sandbox needs p any more, when the host closes, or when
// ctx ends. p is not in service.
func (l *line) outlive(ctx context.Context, p *program) {
	s := l.stayOf(p)
	if s == nil {
		return
	}
	wait, pause := time.NewTimer(0), time.Duration(0)
	defer wait.Stop()
	for needed := true; needed; {
		select {
		case <-wait.C:
			needed = l.needs(ctx, s)
			pause = min(max(2*pause, minStayPoll), maxStayPoll)
			wait.Reset(pause)
		case <-s.kick:
			needed = l.needs(ctx, s)
		case <-l.closing:
			needed = false
		case <-ctx.Done():
			needed = false
		}
	}
	l.settle(p)
	s.end(ctx)
}

// needs reports whether a sandbox still needs s. In doubt one does.
func (l *line) needs(ctx context.Context, s *stay) bool {
	now := l.program()
	if now == nil {
		return false
	}
	log, version := s.program.log, s.program.found.m.Version
	err := s.look(ctx, now)
	switch {
	case err == nil && s.count() == 0:
		log.Info("no sandbox needs this version any more", "version", version)
		return false
	case err != nil && s.noted && s.count() == 0:
		return false // it made none
	case err != nil && ctx.Err() == nil:
		log.Warn("the sandboxes of a version that stays cannot be listed", "version", version, "error", err)
	}
	return true
}

// owned are sandboxes of the version in service, as far as that was found out while
// other versions stay. It is safe for concurrent use.
type owned struct {
	mu   sync.Mutex
	refs map[backend.Ref]struct{}
}

// maxOwned bounds what is remembered; what was forgotten is asked for again.
const maxOwned = 1 << 16

func (p *program) own(ref backend.Ref) {
	p.owned.mu.Lock()
	defer p.owned.mu.Unlock()
	if p.owned.refs == nil || len(p.owned.refs) >= maxOwned {
		p.owned.refs = make(map[backend.Ref]struct{})
	}
	p.owned.refs[ref] = struct{}{}
}

func (p *program) disown(ref backend.Ref) {
	p.owned.mu.Lock()
	defer p.owned.mu.Unlock()
	delete(p.owned.refs, ref)
}

func (p *program) owns(ref backend.Ref) bool {
	p.owned.mu.Lock()
	defer p.owned.mu.Unlock()
	_, ok := p.owned.refs[ref]
	return ok
}
