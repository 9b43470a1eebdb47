package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/hashicorp/go-hclog"
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
	// Replay judges that many recorded requests with the next version of a policy
	// before it serves. One that fails to judge any of them is refused; differences
	// are reported.
	Replay int
}

// DefaultWatch is what SwapOptions.Watch means by zero.
const DefaultWatch = 10 * time.Second

// SwapReport says what became of a swap.
type SwapReport struct {
	Plugin  string  `json:"plugin"`
	Outcome Outcome `json:"outcome"`
	// Reason explains every outcome but SwapDone, and of that whether the watch was cut
	// short because the host closes.
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
	// Staying is how many sandboxes the one that left goes on serving, because the
	// next one does not list their state schema.
	Staying int `json:"staying,omitempty"`
	// Replay is what SwapOptions.Replay asked for.
	Replay *Replay `json:"replay,omitempty"`
}

// PluginVersion is one version of a plugin.
type PluginVersion struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"`
}

func versionOf(f found) PluginVersion { return PluginVersion{f.m.Version, f.m.SHA256} }

// SwapPlugin puts another version of a plugin in use in the place of the one that
// serves, without losing a call: the next version is verified, made ready and
// looked at beside the old one, calls go to it from one moment to the next, and it
// is watched; when it fails, the old version takes them back. Calls in flight end
// where they began.
//
// The report tells how it went; an error means that nothing was tried: nothing in
// use has the name, or another change of the host is under way. When ctx ends before the
// switch nothing changes. After it ctx counts no more: a version that serves is watched
// to the end, or until StopChanges, whoever has gone. What became of it is in the log, the
// events and PluginDetail.
func (h *Host) SwapPlugin(ctx context.Context, name string, o SwapOptions) (SwapReport, error) {
	ctx, done, err := h.change(ctx)
	if err != nil {
		return SwapReport{}, fmt.Errorf("swap plugin %q: %w", name, err)
	}
	defer done()
	return h.swapPlugin(ctx, name, o)
}

// swapPlugin is SwapPlugin without asking whether something else changes.
func (h *Host) swapPlugin(ctx context.Context, name string, o SwapOptions) (SwapReport, error) {
	if o.Watch == 0 {
		o.Watch = DefaultWatch
	}

	old, kind, err := h.inUse(name)
	if err != nil {
		return SwapReport{}, err
	}
	report := SwapReport{Plugin: name, From: versionOf(old), Outcome: SwapUnderWay}
	next, err := h.nextVersion(old, o.Dir)
	var r handoff.Report
	if err != nil {
		r = handoff.Report{Outcome: handoff.Refused, Reason: err.Error()}
	} else {
		report.To = versionOf(next)
		h.swaps.note(report)
		if kind == manifest.KindBackend {
			r, err = h.swapBackend(ctx, next, o, &report)
		} else {
			r, err = h.swapModule(ctx, next, o, &report)
		}
	}
	if r.Outcome == "" {
		report.Outcome, report.Reason = SwapRefused, err.Error()
		h.swaps.note(report)
		return SwapReport{}, fmt.Errorf("swap plugin %q: %w", name, err)
	}
	report.Outcome, report.Reason = Outcome(r.Outcome), r.Reason
	report.Prepare, report.Drain, report.InFlight = r.Prepare, r.Drain, r.Left.Calls+r.Left.Pins
	if report.Outcome == SwapDone {
		h.registry.replace(next)
	}
	h.swaps.note(report)
	level := hclog.Info
	if report.Outcome != SwapDone {
		level = hclog.Warn
	}
	h.log.Log(level, "plugin swap", "plugin", name, "outcome", report.Outcome, "reason", report.Reason,
		"from", report.From.Version, "to", report.To.Version, "drain", report.Drain)
	h.Telemetry().Swapped(telemetry.Event{
		Plugin: name, From: report.From.Version, To: report.To.Version, Outcome: string(report.Outcome), Cause: report.Reason,
	}, report.Drain)
	return report, nil
}

// inUse finds what the configuration uses by name.
func (h *Host) inUse(name string) (found, manifest.Kind, error) {
	if l := h.backends.line(name); l != nil {
		p := l.program()
		if p == nil {
			return found{}, "", fmt.Errorf("swap plugin %q: %w", name, handoff.ErrClosed)
		}
		return p.found, manifest.KindBackend, nil
	}
	ref, err := h.modules.Acquire()
	if err != nil {
		return found{}, "", fmt.Errorf("swap plugin %q: %w", name, err)
	}
	defer ref.Release()
	for _, p := range ref.Value().parts {
		if p.found.m.Name == name {
			return p.found, p.found.m.Kind, nil
		}
	}
	return found{}, "", noPlugin{"plugin in use", name}
}

// nextVersion reads and checks what lies in dir as the next version of old.
func (h *Host) nextVersion(old found, dir string) (found, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return found{}, err
	}
	f := inspect(dir, filepath.Base(dir), h.o.Trust)
	switch {
	case f.m == nil:
		return found{}, errors.New(f.status.Cause)
	case f.m.Kind != old.m.Kind || f.m.Name != old.m.Name:
		return found{}, fmt.Errorf("it is the %s plugin %q, not the %s plugin %q", f.m.Kind, f.m.Name, old.m.Kind, old.m.Name)
	}
	return f, nil
}

// swapBackend puts a process in the place of another.
func (h *Host) swapBackend(ctx context.Context, f found, o SwapOptions, report *SwapReport) (handoff.Report, error) {
	l := h.backends.line(f.m.Name)
	before := l.program()
	r, err := l.slot.Swap(ctx, handoff.Swap[*program]{
		Next: func(ctx context.Context) (*program, error) {
			next, err := h.newProgram(f, h.config().of(f.m.Name))
			if err != nil {
				return nil, err
			}
			next.start()
			if err = next.fit(ctx, o.Probe); err == nil {
				err = l.prepare(ctx, l.program(), next)
			}
			if err != nil {
				return nil, errors.Join(err, next.sup.Close(context.WithoutCancel(ctx)))
			}
			return next, nil
		},
		Watch: o.Watch, Failing: (*program).failing, Drain: drainReport,
	})
	if p := l.program(); p != nil {
		l.settle(p)
	}
	if s := l.stayOf(before); s != nil {
		report.Staying = s.count()
	}
	return r, err
}

// swapModule puts the policy chain and the tables with another module in the
// place of those that serve.
func (h *Host) swapModule(ctx context.Context, f found, o SwapOptions, report *SwapReport) (handoff.Report, error) {
	return h.modules.Swap(ctx, handoff.Swap[*moduleSet]{
		Next: func(ctx context.Context) (*moduleSet, error) {
			ref, err := h.modules.Acquire()
			if err != nil {
				return nil, err
			}
			defer ref.Release()
			a := h.assembly()
			a.before, a.next = ref.Value(), &f
			next, err := a.make(ctx)
			if err != nil {
				return nil, err
			}
			err = next.selftest(ctx, f.m.Name)
			if err == nil && o.Replay > 0 && f.m.Kind == manifest.KindPolicy {
				report.Replay, err = h.replayed(ctx, next, f.m.Name, o.Replay)
			}
			if err != nil {
				return nil, errors.Join(err, next.release(context.WithoutCancel(ctx)))
			}
			return next, nil
		},
		Watch: o.Watch, Failing: func(s *moduleSet) error { return s.failing(f.m.Name) }, Drain: drainReport,
	})
}

// drainReport is how long a report waits for the calls of what left. They go on
// after it.
const drainReport = 30 * time.Second
