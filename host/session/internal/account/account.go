// Package account is a provider's account for tests: sandboxes that live as long
// as the test, and faults on demand, which cannot be provoked in a real one. It
// keeps to the contract of package backend where the tests look. Methods that they
// never call are left to panic.
package account

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Account is a backend.Backend over one account. Several of them may be Views of
// the same sandboxes, as replicas are. Fields are set before use; methods are safe
// for concurrent use.
type Account struct {
	backend.Backend
	*world
	// memory is what this client was told of tokens that are told once.
	memory *memory

	// Name of the plugin; empty means "fake".
	Name string
	Caps []backend.Capability
	// Before and After are called around each operation with its name and subject: a
	// sandbox's id, for Create the session. An error of Before is the operation's,
	// which then does not happen; an error of After hides its success. Neither holds
	// a lock.
	Before, After func(ctx context.Context, op, subject string) error
	// Careless listings ignore their filter.
	Careless bool
	// Silent providers do not say when a sandbox was active.
	Silent bool
	// Timeless providers never end a sandbox by themselves.
	Timeless bool
}

// world is what exists at the provider.
type world struct {
	now func() time.Time

	mu      sync.Mutex
	boxes   map[string]*box
	counts  map[string]int
	deleted []string
	next    int
	all     []backend.Sandbox // ever made
}

type box struct {
	backend.Sandbox
	files map[string][]byte
	token string
}

// New returns an empty account whose clock is now.
func New(now func() time.Time, caps ...backend.Capability) *Account {
	return &Account{Caps: caps, memory: &memory{}, world: &world{now: now, boxes: make(map[string]*box), counts: make(map[string]int)}}
}

// View returns another client of the same account.
func (a *Account) View() *Account {
	v := *a
	v.memory = &memory{}
	return &v
}

// Describe is what Info answers.
func (a *Account) Describe() backend.Info {
	return backend.Info{Name: cmp.Or(a.Name, "fake"), Version: "1.0.0", Capabilities: a.Caps}
}

func (a *Account) has(c backend.Capability) bool { return slices.Contains(a.Caps, c) }

// Info implements backend.Backend.
func (a *Account) Info(context.Context) (backend.Info, error) { return a.Describe(), nil }

// do carries one operation out between its two hooks.
func do[T any](ctx context.Context, a *Account, op, subject string, f func() (T, error)) (v T, err error) {
	var zero T
	if a.Before != nil {
		if err := a.Before(ctx, op, subject); err != nil {
			return zero, err
		}
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	a.mu.Lock()
	a.counts[op]++
	v, err = f()
	a.mu.Unlock()
	if err == nil && a.After != nil {
		err = a.After(ctx, op, subject)
	}
	if err != nil {
		return zero, err
	}
	return v, nil
}

// Gone is proof that a sandbox is gone.
func Gone() error {
	return &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl}
}

// Down is what an unreachable provider answers.
func Down() error { return &backend.Error{Kind: backend.KindUnavailable, Message: "down"} }

// live returns a sandbox that has not ended. Callers hold mu.
func (a *Account) live(id string) (*box, error) {
	b := a.boxes[id]
	if b != nil && !b.Expires.IsZero() && !a.now().Before(b.Expires) {
		delete(a.boxes, id)
		b = nil
	}
	if b == nil {
		return nil, Gone()
	}
	return b, nil
}

// Create implements backend.Backend.
func (a *Account) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	return do(ctx, a, "Create", spec.Session, func() (backend.Sandbox, error) {
		id := spec.Session
		if !a.has(backend.CapNames) {
			a.next++
			id = fmt.Sprintf("box-%d", a.next)
		} else if _, err := a.live(id); err == nil {
			return backend.Sandbox{}, &backend.Error{Kind: backend.KindConflict, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl}
		}
		now := a.now()
		sb := backend.Sandbox{
			Ref: backend.Ref{Config: spec.Config, ID: id}, State: backend.StateRunning,
			Metadata: spec.Metadata, Created: now, LastActive: a.active(now),
		}
		if spec.Timeout.Mode == backend.TimeoutAfter && !a.Timeless {
			sb.Expires = now.Add(spec.Timeout.Duration)
		}
		b := &box{Sandbox: sb, files: make(map[string][]byte)}
		a.boxes[id] = b
		a.all = append(a.all, sb)
		if a.has(backend.CapTokenOnce) {
			b.token = fmt.Sprintf("token-%d", len(a.all))
			a.memory.learn(id, b.token)
			sb.Token = b.token
		}
		return sb, nil
	})
}

// active is what the provider says of something that happened at t.
func (a *Account) active(t time.Time) time.Time {
	if a.Silent {
		return time.Time{}
	}
	return t
}

// Connect implements backend.Backend.
func (a *Account) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return do(ctx, a, "Connect", ref.ID, func() (backend.Sandbox, error) {
		b, err := a.live(ref.ID)
		if err != nil {
			return backend.Sandbox{}, err
		}
		if b.State != backend.StateRunning {
			a.counts["woken"]++
		}
		b.State, b.LastActive = backend.StateRunning, a.active(a.now())
		sb := b.Sandbox
		sb.Token = a.memory.token(ref.ID)
		return sb, nil
	})
}

// Get implements backend.Backend.
func (a *Account) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return do(ctx, a, "Get", ref.ID, func() (backend.Sandbox, error) {
		b, err := a.live(ref.ID)
		if err != nil {
			return backend.Sandbox{}, err
		}
		return b.Sandbox, nil
	})
}

// List implements backend.Backend.
func (a *Account) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	return do(ctx, a, "List", "", func() (out []backend.Sandbox, err error) {
		for id := range a.boxes {
			if b, err := a.live(id); err == nil && (a.Careless || f.Matches(b.Sandbox)) {
				out = append(out, b.Sandbox)
			}
		}
		return out, nil
	})
}

// Delete implements backend.Backend.
func (a *Account) Delete(ctx context.Context, ref backend.Ref) error {
	_, err := do(ctx, a, "Delete", ref.ID, func() (struct{}, error) {
		if _, ok := a.boxes[ref.ID]; ok {
			a.deleted = append(a.deleted, ref.ID)
		}
		delete(a.boxes, ref.ID)
		return struct{}{}, nil
	})
	return err
}

// KeepAlive implements backend.KeepAliver.
func (a *Account) KeepAlive(ctx context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	return do(ctx, a, "KeepAlive", ref.ID, func() (time.Time, error) {
		b, err := a.live(ref.ID)
		if err != nil {
			return time.Time{}, err
		}
		if at := a.now().Add(ttl); at.After(b.Expires) {
			b.Expires = at
		}
		return b.Expires, nil
	})
}
