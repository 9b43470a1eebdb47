package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// Sandbox is a sandbox in use. Release it when the call is over.
type Sandbox struct {
	// Record is as it was when the sandbox was opened; its Expires may have moved
	// (see Expires).
	Record Record
	// Data is its /mnt/data. The store closes it.
	Data *os.Root
	// Quota is the account of Data, shared by everything that writes there.
	Quota *rootfs.Quota
	// Tree is the host's way to change Data under that account.
	Tree rootfs.Tree
	// Index holds digests of Data.
	Index *changes.Index

	store *Store
	key   key
	path  string
	lock  dirLock // shared, on its directory, while refs > 0

	// turn holds one token while no run has the sandbox.
	turn   chan struct{}
	ctx    context.Context // ends when the sandbox is deleted
	cancel context.CancelCauseFunc
	files  scanned

	mu      sync.Mutex
	seen    seen
	expires time.Time

	refs   int           // under store.mu
	weight int           // what it counts for in store.weight while idle
	gone   bool          // deleted or evicted; under store.mu
	lost   bool          // deleted; under store.mu
	unused chan struct{} // closed when gone and unused
}

var (
	errClosed = errors.New("the sandbox store is closed")
	errBusy   = errors.New("another process is about to end the sandbox, and does not")
)

// indexFile is the name of the index in a sandbox's directory.
const indexFile = "index.json"

// shut saves the index and gives up the descriptors. Nobody uses b any more.
func (b *Sandbox) shut() {
	if !b.lost && b.files.ever() {
		if saved, err := json.Marshal(b.Index); err == nil {
			_ = replaceFile(filepath.Join(b.path, indexFile), saved) // a cache
		}
	}
	b.cancel(nil)
	b.Data.Close()
	b.lock.close()
	close(b.unused)
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(path string, b []byte) error {
	tmp := path + "." + randomName()
	err := os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
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

// touchEvery is how exact the last activity is: nobody ends a sandbox because of
// a second.
const touchEvery = time.Second

// Touch notes activity.
func (b *Sandbox) Touch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.store.now()
	if d := now.Sub(time.Unix(0, b.seen.active)); d >= 0 && d < touchEvery {
		return
	}
	if setActive(filepath.Join(b.path, recordFile), now) == nil { // it may be deleted by now
		b.seen.active = now.UnixNano()
	}
}

// Active returns the last activity, and when the sandbox ends by itself; zero is
// never.
func (b *Sandbox) Active() (active, expires time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Unix(0, b.seen.active), b.expires
}

// SetExpires changes when the sandbox ends by itself; zero is never.
func (b *Sandbox) SetExpires(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, _, err := read(b.path, b.key)
	if err != nil {
		return err
	}
	r.Expires = at
	if err := replaceRecord(b.path, r, b.store.now()); err != nil {
		return fmt.Errorf("prolong sandbox: %w", err)
	}
	b.expires = at
	b.seen, err = lookRecord(b.path)
	return err
}

// Staged is a directory for files on their way into Data, on the same file system,
// and the same directory opened. Both belong to the store.
func (b *Sandbox) Staged() (path string, dir *os.File) { return b.store.work, b.store.workDir }
