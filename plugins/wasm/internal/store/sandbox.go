package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// Sandbox is a sandbox in use. Release it when the call is over.
type Sandbox struct {
	// Record is as it was when the sandbox was opened: Expires may be older than
	// what Look says.
	Record Record
	// Data is its /mnt/data. The store closes it.
	Data *os.Root
	// Quota is the account of Data, shared by everything that writes there.
	Quota *rootfs.Quota
	// Index holds digests of Data.
	Index *changes.Index

	store *Store
	key   key
	dir   string

	// turn holds one token while no run has the sandbox.
	turn   chan struct{}
	ctx    context.Context // ends when the sandbox is deleted
	cancel context.CancelCauseFunc
	refs   int           // under store.mu
	gone   bool          // deleted or evicted; under store.mu
	lost   bool          // deleted; under store.mu
	unused chan struct{} // closed when gone and unused
}

var errClosed = errors.New("the sandbox store is closed")

// Get takes a sandbox into use.
func (s *Store) Get(config, id string) (*Sandbox, error) {
	for {
		r, _, err := s.Look(config, id)
		if err != nil {
			return nil, err
		}
		b, err := s.get(key{config, id}, r)
		if err == nil {
			return b, nil
		}
		// It may have been deleted while it was opened, and its name taken again.
		again, _, gone := s.Look(config, id)
		switch {
		case errors.Is(gone, ErrAbsent):
			return nil, ErrAbsent
		case gone != nil || again.Created.Equal(r.Created):
			return nil, err
		}
	}
}

func (s *Store) get(k key, r Record) (*Sandbox, error) {
	b, err := s.opened(k)
	if b != nil || err != nil {
		return b, err
	}
	// Opening walks the tree to measure it, so it happens outside the lock.
	fresh, err := s.load(k, r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		fresh.shut()
		return nil, errClosed
	}
	if b := s.open[k]; b != nil { // somebody was faster
		fresh.shut()
		b.use()
		return b, nil
	}
	fresh.refs = 1
	s.open[k] = fresh
	return fresh, nil
}

// opened takes a sandbox into use that is open already; nil when it is not.
func (s *Store) opened(k key) (*Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	b := s.open[k]
	if b != nil {
		b.use()
	}
	return b, nil
}

// use adds a reference; the caller holds store.mu.
func (b *Sandbox) use() {
	if b.refs++; b.refs == 1 {
		b.store.idle = slices.DeleteFunc(b.store.idle, func(x *Sandbox) bool { return x == b })
	}
}

func (s *Store) load(k key, r Record) (*Sandbox, error) {
	dir := s.path(k.config, k.id)
	root, err := os.OpenRoot(filepath.Join(dir, "data"))
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	b := &Sandbox{
		Record: r, Data: root, Quota: rootfs.NewQuota(s.quota), Index: &changes.Index{},
		store: s, key: k, dir: dir, turn: make(chan struct{}, 1), unused: make(chan struct{}),
	}
	b.turn <- struct{}{}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	if err := b.Quota.Measure(b.ctx, root); err != nil {
		b.shut()
		return nil, fmt.Errorf("measure sandbox: %w", err)
	}
	if saved, err := os.ReadFile(filepath.Join(dir, "index.json")); err == nil {
		_ = json.Unmarshal(saved, b.Index) // a damaged index is an empty one
	}
	return b, nil
}

// Release ends one use.
func (b *Sandbox) Release() {
	s := b.store
	s.mu.Lock()
	b.refs--
	var evicted *Sandbox
	switch {
	case b.refs > 0:
	case b.gone || s.closed:
		evicted = b
	default:
		s.idle = append(s.idle, b)
		if len(s.idle) > maxIdle {
			evicted = s.idle[0]
			s.idle = s.idle[1:]
			evicted.gone = true
			delete(s.open, evicted.key)
		}
	}
	s.mu.Unlock()
	if evicted != nil {
		evicted.shut()
	}
}

// forget takes a sandbox out of the store's hands; nil when it was not open.
func (s *Store) forget(k key) *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[k]
	if b == nil {
		return nil
	}
	delete(s.open, k)
	b.gone, b.lost = true, true
	if b.refs == 0 {
		s.idle = slices.DeleteFunc(s.idle, func(x *Sandbox) bool { return x == b })
		defer b.shut()
	}
	return b
}

// shut saves the index and gives up the descriptor. Nobody uses b any more.
func (b *Sandbox) shut() {
	if saved, err := json.Marshal(b.Index); err == nil && !b.lost {
		_ = replaceFile(filepath.Join(b.dir, "index.json"), saved) // a cache
	}
	b.cancel(nil)
	b.Data.Close()
	close(b.unused)
}

// Turn waits until no other run has the sandbox, first come first served, and
// returns a context that also ends when the sandbox is deleted, and how to give
// the turn back.
func (b *Sandbox) Turn(ctx context.Context) (context.Context, func(), error) {
	select {
	case <-b.turn:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-b.ctx.Done():
		return nil, nil, context.Cause(b.ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(context.Cause(b.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		b.turn <- struct{}{}
	}, nil
}

// Deleted reports whether the sandbox was deleted while in use.
func (b *Sandbox) Deleted() bool { return errors.Is(context.Cause(b.ctx), errDeleted) }

// Touch notes activity.
func (b *Sandbox) Touch() {
	_ = touch(b.dir, b.store.now()) // fails only when the sandbox was deleted meanwhile
}

// Work is the directory for files on their way into Data. It is on the same file
// system.
func (b *Sandbox) Work() string { return b.store.work }
