package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/caisson-run/caisson/host/backendconfig"
	"github.com/caisson-run/caisson/runtimes/handoff"
)

// config is the configuration in force.
func (h *Host) config() *Config {
	if c := h.live.Load(); c != nil {
		return c
	}
	return &h.o.Config
}

// change takes the right to change the host, which nobody else has until done. The
// context ends with StopChanges too.
func (h *Host) change(ctx context.Context) (_ context.Context, done func(), err error) {
	if err := h.changeable(); err != nil {
		return nil, nil, err
	}
	select {
	case h.changing <- struct{}{}:
	default:
		return nil, nil, h.swaps.busy()
	}
	ctx, end := h.untilClosing(ctx)
	return ctx, func() {
		end()
		<-h.changing
	}, nil
}

// untilClosing is ctx that ends with StopChanges too, and with done.
func (h *Host) untilClosing(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.changes, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Reconfigure puts another configuration in force without losing a call: named
// configs and plugins that are new, changed or gone, the default for new sessions,
// the policy chain, the language tables and the limits. Everything is checked,
// loaded and started before anything changes; on an error nothing has. A config that
// would not reach its live sandboxes any more, because its identity changes or it is gone,
// is one (backendconfig.ErrInUse); it is cordoned while that is looked at and until the
// change is in force, so that no replica makes a sandbox there meanwhile.
// Clocks stay as they were. The decision log is opened again, so that one that was moved
// away or could not be written goes on. It returns what changed, one sentence each.
func (h *Host) Reconfigure(ctx context.Context, c Config) (changes []string, err error) {
	defer func() { h.reconfigured(changes, err) }()
	ctx, done, err := h.change(ctx)
	if err != nil {
		return nil, fmt.Errorf("reconfigure: %w", err)
	}
	defer done()
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("reconfigure: %w", err)
	}
	r := &reconfiguration{h: h, old: h.config(), next: &c, before: h.backends.now.Load()}
	if err := r.carryOut(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reconfigure: %w", err), r.abandon(context.WithoutCancel(ctx)))
	}
	h.decisions.reopen()
	slices.Sort(r.changes)
	for _, l := range r.looser {
		h.log.Warn(l)
	}
	h.log.Info("configuration changed", "changes", len(r.changes))
	return r.changes, nil
}

// reconfiguration is one change under way.
type reconfiguration struct {
	h         *Host
	old, next *Config
	before    *routes
	lines     map[string]*line // that were started
	edits     []edit
	opened    int // edits that were carried out
	modules   *moduleSet
	changes   []string
	looser    []string // changes of the chain that let more pass
}

// edit is what changes for one program that goes on serving.
type edit struct {
	program *program
	serves  []BackendConfig // afterwards
	open    []BackendConfig // new or changed
	gone    []string
}

// carryOut prepares the change and puts it in force, with the configs cordoned whose
// sandboxes it could lose.
func (r *reconfiguration) carryOut(ctx context.Context) error {
	lost, err := r.stranded()
	if err != nil {
		return err
	}
	ids := make([]string, len(lost))
	for i, l := range lost {
		ids[i] = l.config
	}
	done := false
	err = backendconfig.Keep(ctx, r.h.keeping.cordons, ids, func(ctx context.Context) error {
		if err := r.strand(ctx, lost); err != nil {
			return err
		}
		if err := r.prepare(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // a cordon was lost
			return err
		}
		r.commit(context.WithoutCancel(ctx))
		done = true
		return nil
	})
	if done {
		return nil // whatever became of a cordon since
	}
	return err
}

func (r *reconfiguration) prepare(ctx context.Context) error {
	programs, err := r.h.newPrograms(r.next, func(plugin string) bool { return r.before.lines[plugin] == nil })
	if err != nil {
		return err
	}
	if err := r.plan(); err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	r.lines = startLines(programs)
	for name, l := range r.lines {
		if err := l.program().proven(ctx); err != nil {
			return err
		}
		r.changes = append(r.changes, fmt.Sprintf("backend plugin %s: started", name))
	}
	for _, e := range r.edits {
		u, running := e.program.sup.Now()
		r.opened++
		for _, c := range e.open {
			if !running {
				continue // its next start opens all
			}
			if err := e.program.reopen(ctx, u, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan finds what changes for the programs that serve already.
func (r *reconfiguration) plan() error {
	for name, l := range r.before.lines {
		p := l.program()
		configs := r.next.of(name)
		if p == nil || len(configs) == 0 {
			continue
		}
		complete, err := completeConfigs(p.found, configs)
		if err != nil {
			return err
		}
		e := edit{program: p, serves: complete}
		for _, c := range complete {
			switch was, ok := p.config(c.ID); {
			case !ok:
				e.open = append(e.open, c)
				r.changes = append(r.changes, fmt.Sprintf("sandbox config %s: new, on %s", c.ID, name))
			case !bytes.Equal(was.Config, c.Config):
				e.open = append(e.open, c)
				r.changes = append(r.changes, fmt.Sprintf("sandbox config %s: changed", c.ID))
			}
		}
		for _, c := range p.configs() {
			if !slices.ContainsFunc(complete, func(n BackendConfig) bool { return n.ID == c.ID }) {
				e.gone = append(e.gone, c.ID)
				r.changes = append(r.changes, fmt.Sprintf("sandbox config %s: gone from %s", c.ID, name))
			}
		}
		r.edits = append(r.edits, e)
	}
	return nil
}

// load makes the modules where they change.
func (r *reconfiguration) load(ctx context.Context) error {
	policies := !reflect.DeepEqual(r.old.Policies, r.next.Policies)
	languages := !slices.Equal(r.old.Languages, r.next.Languages)
	if !policies && !languages {
		return nil
	}
	ref, err := r.h.modules.Acquire()
	if err != nil {
		return err
	}
	defer ref.Release()
	a := r.h.assembly()
	a.config, a.before = *r.next, ref.Value()
	if r.modules, err = a.make(ctx); err != nil {
		r.modules = nil // make left nothing
		return err
	}
	if err := r.modules.selftestNew(ctx, ref.Value()); err != nil {
		return err
	}
	if policies {
		r.changes = append(r.changes, "policies: another chain")
		r.looser = looser(r.old.Policies, r.next.Policies)
		r.changes = append(r.changes, r.looser...)
	}
	if languages {
		r.changes = append(r.changes, "languages: other tables")
	}
	return nil
}

// abandon undoes what prepare had done. Plugins are not waited for any more once the
// host closes: what they have open ends with them.
func (r *reconfiguration) abandon(ctx context.Context) error {
	errs := []error{closeLines(ctx, r.lines)}
	whole := ctx
	ctx, done := r.h.untilClosing(ctx)
	defer done()
	for _, e := range r.edits[:r.opened] {
		u, running := e.program.sup.Now()
		for _, c := range e.open {
			if !running {
				continue
			}
			if was, ok := e.program.config(c.ID); ok {
				errs = append(errs, e.program.reopen(ctx, u, was))
			} else {
				errs = append(errs, u.close(ctx, c.ID))
			}
		}
	}
	if r.modules != nil {
		errs = append(errs, r.modules.release(whole))
	}
	return errors.Join(errs...)
}

// commit puts what was prepared in force. It cannot fail; what cannot be closed is
// logged.
func (r *reconfiguration) commit(ctx context.Context) {
	h := r.h
	for _, e := range r.edits {
		e.program.serves.Store(&e.serves)
	}
	lines, gone := maps.Clone(r.before.lines), make(map[string]*line)
	maps.Copy(lines, r.lines)
	for name, l := range r.before.lines {
		if len(r.next.of(name)) == 0 {
			delete(lines, name)
			gone[name] = l
			r.changes = append(r.changes, fmt.Sprintf("backend plugin %s: stops", name))
		}
	}
	if r.old.Default != r.next.Default {
		r.changes = append(r.changes, fmt.Sprintf("default backend: %s", r.next.Default))
	}
	if r.old.Limits != r.next.Limits || r.old.MaxLimits != r.next.MaxLimits {
		r.changes = append(r.changes, "limits: changed")
	}
	h.backends.now.Store(route(r.next, lines))
	h.live.Store(r.next)
	if r.modules != nil {
		_, err := h.modules.Swap(ctx, handoff.Swap[*moduleSet]{
			Next:  func(context.Context) (*moduleSet, error) { return r.modules, nil },
			Drain: drainReport,
		})
		if err != nil { // the host is closing
			h.log.Warn("modules not changed", "error", errors.Join(err, r.modules.release(ctx)))
		}
	}
	closing, done := h.untilClosing(ctx)
	defer done()
	for _, e := range r.edits {
		u, running := e.program.sup.Now()
		if !running {
			continue
		}
		for _, id := range e.gone {
			if err := u.close(closing, id); err != nil {
				h.log.Warn("config not closed", "config", id, "error", err)
			}
		}
	}
	if len(gone) > 0 {
		h.tasks.Go(func() { // their calls may go on until the host closes
			if err := closeLines(h.life, gone); err != nil {
				h.log.Warn("plugin not stopped", "error", err)
			}
		})
	}
}
