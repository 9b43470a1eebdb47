package machine

import (
	"context"
	"errors"
	"time"
)

// kick asks the keeper to look what there is to do.
func (m *Machine) kick() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// used tells the keeper that an instance was taken or closed.
func (m *Machine) used() {
	m.mu.Lock()
	m.busy = true
	m.mu.Unlock()
	m.kick()
}

// keep is the machine's goroutine. It competes with runs for the processors as one
// of them does, and what it makes is work that they do not have to do.
func (m *Machine) keep(ctx context.Context) {
	defer close(m.done)
	idle := time.NewTimer(m.cfg.Idle)
	defer idle.Stop()
	resting := false // nothing was used for a while
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			resting = true
			m.rest(ctx)
			continue
		case <-m.wake:
		}
		if m.wasUsed() {
			resting = false
			idle.Reset(m.cfg.Idle)
		}
		most := m.cfg.Parked
		if resting {
			most = min(most, idleParked)
		}
		for ctx.Err() == nil && m.image != nil && m.Parked() < most {
			inst, err := m.fill(0)
			if err != nil {
				break // the next Take fails as well, and says why
			}
			m.park(inst)
		}
		m.cfg.Regions.Tidy()
	}
}

// wasUsed tells whether an instance was used since it was last asked.
func (m *Machine) wasUsed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.busy
	m.busy = false
	return used
}

func (m *Machine) park(inst *Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parked = append(m.parked, inst)
}

// rest gives up what an idle machine does not need.
func (m *Machine) rest(ctx context.Context) {
	_ = m.drop(ctx, idleParked)
	if m.image != nil {
		m.cfg.Regions.Trim(m.image.memory)
	}
	m.cfg.Regions.Trim(nil)
}

// drop closes the parked instances that were made first, down to a number.
func (m *Machine) drop(ctx context.Context, keep int) error {
	m.mu.Lock()
	n := max(len(m.parked)-keep, 0)
	extra := m.parked[:n]
	m.parked = append([]*Instance(nil), m.parked[n:]...)
	m.mu.Unlock()
	var errs []error
	for _, inst := range extra {
		errs = append(errs, inst.Module.Close(context.WithoutCancel(ctx)))
		inst.region.Unmap()
	}
	return errors.Join(errs...)
}
