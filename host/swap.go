package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Outcome of a swap.
type Outcome string

const (
	// SwapDone: the next version serves.
	SwapDone Outcome = "switched"
	// SwapRefused: the next version never served.
	SwapRefused Outcome = "refused"
	// SwapRolledBack: the next version served, failed while it was watched, and the
	// version before serves again.
	SwapRolledBack Outcome = "rolled_back"
)

// SwapOptions of SwapPlugin.
type SwapOptions struct {
	// Dir is the directory of the next version, with its plugin.yaml. It stays in
	// use; the plugin directories are not changed.
	Dir string
	// Probe asks the next version about every named config before it serves, and
	// refuses it when one of them could make no sandbox.
	Probe bool
	// Watch is how long the version before is kept ready, to go back to when the
	// next one crashes or fails calls; zero means DefaultWatch, negative none.
	Watch time.Duration
}

// DefaultWatch is what SwapOptions.Watch means by zero.
const DefaultWatch = 10 * time.Second

// SwapReport says what became of a swap.
type SwapReport struct {
	Plugin  string  `json:"plugin"`
	Outcome Outcome `json:"outcome"`
	// Reason explains every outcome but SwapDone.
	Reason string `json:"reason,omitempty"`
	// From and To are the versions, with the digests that their manifests pin.
	From PluginVersion `json:"from"`
	To   PluginVersion `json:"to"`
	// Prepare is how long the next version took until it could serve, Drain how
	// long calls of the one that left went on.
	Prepare time.Duration `json:"prepare_ns"`
	Drain   time.Duration `json:"drain_ns"`
	// InFlight is what still runs on the one that left: terminals, and calls
	// that took longer than this report.
	InFlight int64 `json:"in_flight,omitempty"`
}

// PluginVersion is one version of a plugin.
type PluginVersion struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"`
}

func versionOf(f found) PluginVersion { return PluginVersion{f.m.Version, f.m.SHA256} }

// SwapPlugin puts another version of a running backend plugin in the place of the
// one that serves, without losing a call: the next version is verified, started,
// configured and looked at beside the old one, calls go to it from one moment to
// the next, and it is watched; when it fails, the old version takes them back.
// Calls in flight end where they began.
//
// The report tells how it went; an error means that nothing was tried: no such
// plugin, or another swap of it is under way. When ctx ends before the switch
// nothing changes.
func (h *Host) SwapPlugin(ctx context.Context, name string, o SwapOptions) (SwapReport, error) {
	l, ok := h.backends.plugins[name]
	if !ok {
		return SwapReport{}, fmt.Errorf("no running backend is called %q", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(h.life, cancel)
	defer stop()

	old := l.program()
	if old == nil {
		return SwapReport{}, handoff.ErrClosed
	}
	report := SwapReport{Plugin: name, From: versionOf(old.found)}
	next, err := h.nextProgram(old, o.Dir)
	if err != nil {
		report.Outcome, report.Reason = SwapRefused, err.Error()
		return report, nil
	}
	report.To = versionOf(next.found)
	watch := o.Watch
	if watch == 0 {
		watch = DefaultWatch
	}
	r, err := l.slot.Swap(ctx, handoff.Swap[*program]{
		Next: func(ctx context.Context) (*program, error) {
			next.start()
			if err := next.fit(ctx, old, o.Probe); err != nil {
				return nil, errors.Join(err, next.sup.Close(context.WithoutCancel(ctx)))
			}
			return next, nil
		},
		Watch:   watch,
		Failing: (*program).failing,
		Drain:   drainReport,
	})
	if err != nil {
		return SwapReport{}, fmt.Errorf("swap plugin %q: %w", name, err)
	}
	report.Outcome, report.Reason = Outcome(r.Outcome), r.Reason
	report.Prepare, report.Drain, report.InFlight = r.Prepare, r.Drain, r.Left.Calls+r.Left.Pins
	if report.Outcome == SwapDone {
		h.registry.replace(next.found)
	}
	h.log.Info("plugin swap", "plugin", name, "outcome", report.Outcome, "reason", report.Reason,
		"from", report.From.Version, "to", report.To.Version, "drain", report.Drain)
	return report, nil
}

// drainReport is how long a report waits for the calls of what left. They go on
// after it.
const drainReport = 30 * time.Second

// nextProgram reads and checks what lies in dir as the next version of old.
func (h *Host) nextProgram(old *program, dir string) (*program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := inspect(dir, filepath.Base(dir), h.o.StrictDigests)
	switch {
	case f.m == nil:
		return nil, errors.New(f.status.Cause)
	case f.m.Kind != manifest.KindBackend || f.m.Name != old.found.m.Name:
		return nil, fmt.Errorf("it is the %s plugin %q, not the backend plugin %q", f.m.Kind, f.m.Name, old.found.m.Name)
	}
	configs := make([]BackendConfig, 0, len(old.configs))
	for _, c := range h.o.Config.Backends {
		if c.Plugin == old.found.m.Name {
			configs = append(configs, c)
		}
	}
	return h.newProgram(f, configs)
}

// fit waits until p could take the place of old, or says why it cannot.
func (p *program) fit(ctx context.Context, old *program, probe bool) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	if err := p.proven(ctx); err != nil {
		return err
	}
	u, err := p.sup.Unit(ctx)
	if err != nil {
		return err
	}
	if err := p.keepsState(ctx, u, old); err != nil {
		return err
	}
	if err := ready(ctx, u); err != nil {
		return err
	}
	if !probe {
		return nil
	}
	for _, c := range p.configs {
		report, err := u.backend.Probe(ctx, c.Config)
		if err == nil && !report.OK {
			err = errors.New(report.Detail)
		}
		if err != nil {
			return fmt.Errorf("probe config %q: %w", c.ID, err)
		}
	}
	return nil
}

// keepsState refuses a version that cannot serve the sandboxes that exist.
func (p *program) keepsState(ctx context.Context, u *unit, old *program) error {
	before, err := old.sup.Unit(ctx)
	if err != nil {
		return nil // it serves nobody
	}
	for _, schema := range before.info.StateSchema {
		if !slices.Contains(u.info.StateSchema, schema) {
			return fmt.Errorf("it does not list state schema %q, in which the version in service keeps its sandboxes", schema)
		}
	}
	return nil
}

// ready waits until the unit says that it is.
func ready(ctx context.Context, u *unit) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		h, err := u.backend.Health(ctx)
		if err == nil && h.Ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-u.Done():
			return fmt.Errorf("ended before it was ready: %s", u.Ended().Cause)
		case <-ctx.Done():
			if err == nil {
				err = backend.Errorf(backend.KindUnavailable, "Health", "%s", h.Reason)
			}
			return fmt.Errorf("not ready: %w", err)
		}
	}
}

// failing is asked of a version that serves and is watched.
func (p *program) failing() error {
	v := p.sup.View()
	if v.LastEnd != nil {
		return errors.New(v.LastEnd.Cause)
	}
	if v.State != supervise.Ready {
		return fmt.Errorf("%s: %s", v.State, v.Cause)
	}
	return p.calls.failing()
}
