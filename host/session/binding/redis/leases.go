package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// Lock implements binding.Engine.
func (e *Engine) Lock(ctx context.Context, key binding.Key, holder string, lease time.Duration) (binding.Fence, time.Duration, error) {
	r, err := e.run(ctx, e.scripts.lock, []string{e.keys(key).lock()}, holder, lease.Milliseconds())
	if errors.Is(err, errBusy) {
		return 0, time.Duration(r.int(0)) * time.Millisecond, nil
	}
	if err != nil {
		return 0, 0, err
	}
	fence, err := strconv.ParseUint(r.text(0), 10, 64)
	if err != nil || fence == 0 {
		return 0, 0, fmt.Errorf("%w: the lock's fence is not a number", binding.ErrCorrupt)
	}
	return binding.Fence(fence), 0, nil
}

// LockRewind implements binding.Engine.
func (e *Engine) LockRewind(ctx context.Context, key binding.Key, holder string, lease time.Duration) error {
	k := e.keys(key)
	_, err := e.run(ctx, e.scripts.rewind, []string{k.rewind(), k.turns(), k.work()}, holder, lease.Milliseconds())
	return err
}

// BeginTurn implements binding.Engine.
func (e *Engine) BeginTurn(ctx context.Context, key binding.Key, holder string, lease time.Duration, rebuild binding.Rebuild) (binding.State, error) {
	k := e.keys(key)
	r, err := e.run(ctx, e.scripts.begin, []string{k.binding(), k.rewind(), k.turns(), k.work()},
		flag(bool(rebuild)), holder, lease.Milliseconds())
	if err != nil {
		return binding.State{}, err
	}
	return state(key, r)
}

// Renew implements binding.Engine.
func (e *Engine) Renew(ctx context.Context, key binding.Key, what binding.Lease, holder string, lease time.Duration) (bool, error) {
	k := e.keys(key)
	switch what {
	case binding.LeaseLifecycle:
		return e.yes(ctx, e.scripts.renew, []string{k.lock()}, holder, lease.Milliseconds())
	case binding.LeaseRewind:
		return e.yes(ctx, e.scripts.renew, []string{k.rewind()}, holder, lease.Milliseconds())
	default:
		return e.yes(ctx, e.scripts.renewTurn, []string{k.rewind(), k.turns()}, holder, lease.Milliseconds())
	}
}

// Release implements binding.Engine.
func (e *Engine) Release(ctx context.Context, key binding.Key, what binding.Lease, holder string) error {
	k := e.keys(key)
	script, name := e.scripts.release, k.lock()
	switch what {
	case binding.LeaseRewind:
		name = k.rewind()
	case binding.LeaseTurn:
		script, name = e.scripts.end, k.turns()
	}
	_, err := e.run(ctx, script, []string{name}, holder)
	return err
}

// AddWork implements binding.Engine.
func (e *Engine) AddWork(ctx context.Context, key binding.Key, w binding.Work, lease time.Duration, limit int) error {
	k := e.keys(key)
	_, err := e.run(ctx, e.scripts.add, []string{k.rewind(), k.work(), k.data()},
		w.ID, w.Kind, w.Data, lease.Milliseconds(), limit, binding.MaxWork)
	return err
}

// RenewWork implements binding.Engine.
func (e *Engine) RenewWork(ctx context.Context, key binding.Key, id string, lease time.Duration) (bool, error) {
	k := e.keys(key)
	return e.yes(ctx, e.scripts.renewWork, []string{k.work(), k.data()}, id, lease.Milliseconds())
}

// RemoveWork implements binding.Engine.
func (e *Engine) RemoveWork(ctx context.Context, key binding.Key, id string) error {
	k := e.keys(key)
	_, err := e.run(ctx, e.scripts.remove, []string{k.work(), k.data()}, id)
	return err
}

// Work implements binding.Engine.
func (e *Engine) Work(ctx context.Context, key binding.Key) ([]binding.Work, error) {
	k := e.keys(key)
	r, err := e.run(ctx, e.scripts.work, []string{k.work(), k.data()})
	if err != nil {
		return nil, err
	}
	var list []binding.Work
	for i := 0; i+2 < len(r); i += 3 {
		ends, err := millis(r.text(i + 1))
		kind, data, ok := strings.Cut(r.text(i+2), "\n")
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: a background activity cannot be read", binding.ErrCorrupt)
		}
		list = append(list, binding.Work{ID: r.text(i), Kind: kind, Data: data, Expires: ends})
	}
	slices.SortFunc(list, func(a, b binding.Work) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}
