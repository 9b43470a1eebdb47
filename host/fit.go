package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/runtimes/wasm"
)

// fit waits until p could serve, or says why it cannot.
func (p *program) fit(ctx context.Context, probe bool) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	if err := p.proven(ctx); err != nil {
		return err
	}
	u, err := p.sup.Unit(ctx)
	if err != nil {
		return err
	}
	if err := p.ready(ctx, u); err != nil {
		return err
	}
	if !probe {
		return nil
	}
	for _, c := range p.configs() {
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

// ready waits until the unit says that it is.
func (p *program) ready(ctx context.Context, u *unit) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	reason := errors.New("it was not asked")
	for {
		h, err := u.backend.Health(ctx)
		switch {
		case err == nil && h.Ready:
			p.sup.Heard(ctx, u, supervise.Health{Ready: true}) // who watches it must not doubt
			return nil
		case err == nil:
			reason = errors.New(h.Reason)
		case ctx.Err() == nil:
			reason = err
		}
		select {
		case <-tick.C:
		case <-u.Done():
			return fmt.Errorf("ended before it was ready: %s", u.Ended().Cause)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", reason)
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

// selftest asks the modules of a plugin to look at themselves.
func (s *moduleSet) selftest(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	for _, p := range s.parts {
		if p.found.m.Name == name {
			if err := p.selftest(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// selftestNew asks those that before does not hold.
func (s *moduleSet) selftestNew(ctx context.Context, before *moduleSet) error {
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	for _, p := range s.parts {
		if !slices.Contains(before.parts, p) {
			if err := p.selftest(ctx); err != nil {
				return fmt.Errorf("plugin %q: %w", p.found.m.Name, err)
			}
		}
	}
	return nil
}

// endings counts the failures that end an instance and are the module's own fault.
func endings(by map[wasm.Reason]uint64) (n uint64) {
	for _, reason := range []wasm.Reason{wasm.ReasonTrap, wasm.ReasonFuel, wasm.ReasonMemory, wasm.ReasonBadOutput} {
		n += by[reason]
	}
	return n
}

func (p *part) selftest(ctx context.Context) error {
	if _, err := p.module.Call(ctx, wasm.OpSelftest, nil, nil); err != nil {
		return fmt.Errorf("selftest: %w", err)
	}
	return nil
}

// failing is asked of a module that serves and is watched. A call that ended an instance
// says enough; one that failed otherwise may be the fault of its request, and one that
// ran out of time that of a busy machine.
func (s *moduleSet) failing(name string) error {
	for _, p := range s.parts {
		if p.found.m.Name != name {
			continue
		}
		st := p.module.Stats()
		if ended := endings(st.Failures); ended > 0 {
			return fmt.Errorf("%d of %d calls ended an instance: %v", ended, st.Calls, st.Failures)
		}
		if err := p.calls.failing(); err != nil {
			return err
		}
	}
	return nil
}
