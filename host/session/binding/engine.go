package binding

import (
	"context"
	"iter"
	"time"
)

// Engine is the atomic steps that a [Store] is made of. Callers use a Store; an
// engine is for those who implement or decorate one. Keys, records and durations
// have been validated. Every step happens at one moment as seen by every replica,
// and repeating a step that was not answered does no harm.
//
// Errors: an [Error] when the engine cannot answer, [SchemaError] or ErrCorrupt for
// what it finds stored, the context's error, and those named at a method.
type Engine interface {
	// State reads a session and, if asked, spends the rebuild of its open turn.
	// The answer is from before that.
	State(ctx context.Context, key Key, rebuild Rebuild) (State, error)
	// Bindings reads many sessions; unbound ones are missing in the answer. One
	// that cannot be read is in the error, joined, beside the others.
	Bindings(ctx context.Context, keys []Key) (map[Key]Binding, error)
	// All yields bindings, in no order and each once unless it changes meanwhile.
	// Those made or deleted meanwhile may be missed. An error about one record does
	// not end the sequence.
	All(ctx context.Context, f Filter) iter.Seq2[Binding, error]
	// Create stores b if its session is unbound, or bound to the very same sandbox.
	// The fence is zero outside a lock.
	Create(ctx context.Context, b Binding, fence Fence) (bool, error)
	// DeleteIfMatch unbinds a session if it is bound to that sandbox.
	DeleteIfMatch(ctx context.Context, key Key, provider, sandbox string, fence Fence) (bool, error)
	// ReplaceToken patches the token, and nothing else, of a session that is bound to that sandbox.
	ReplaceToken(ctx context.Context, key Key, provider, sandbox, token string) (bool, error)
	// MarkStale patches Stale of every binding of a tenant's config that has none
	// and returns how many it patched.
	MarkStale(ctx context.Context, tenant, config string) (int, error)

	// Lock takes the lifecycle lock for holder, also when it has it already; its
	// fence is larger than any before. Not taken is a zero fence, with how long the
	// holder's lease still lasts.
	Lock(ctx context.Context, key Key, holder string, lease time.Duration) (fence Fence, busy time.Duration, err error)
	// LockRewind takes the rewind lock for holder, or is ErrTurnActive,
	// ErrWorkActive or ErrRewindLocked.
	LockRewind(ctx context.Context, key Key, holder string, lease time.Duration) error
	// BeginTurn opens a turn for holder and reads the session, both unless it is
	// ErrRewindLocked.
	BeginTurn(ctx context.Context, key Key, holder string, lease time.Duration, rebuild Rebuild) (State, error)
	// Renew starts holder's lease again and reports whether it was still held. A turn
	// that an engine has forgotten is opened again.
	Renew(ctx context.Context, key Key, what Lease, holder string, lease time.Duration) (bool, error)
	// Release ends holder's lease, if it is still held.
	Release(ctx context.Context, key Key, what Lease, holder string) error

	// AddWork adds an activity, or renews and replaces one of the same id. It is
	// ErrWorkLimit where limit others of its kind, or MaxWork of all, are live, and
	// ErrRewindLocked during a rewind.
	AddWork(ctx context.Context, key Key, w Work, lease time.Duration, limit int) error
	// RenewWork starts an activity's lease again and reports whether it was live.
	RenewWork(ctx context.Context, key Key, id string, lease time.Duration) (bool, error)
	// RemoveWork removes an activity; an absent one is no error.
	RemoveWork(ctx context.Context, key Key, id string) error
	// Work lists the live activities by id.
	Work(ctx context.Context, key Key) ([]Work, error)

	// Check asks the engine how it is.
	Check(ctx context.Context) (Report, error)
	// Close releases what the engine holds; calls after it are ErrClosed.
	Close() error
}

// Fence orders the holders of a session's lifecycle lock. Zero is none.
type Fence uint64

// Lease is one of the three things that are held.
type Lease string

const (
	LeaseLifecycle Lease = "lifecycle"
	LeaseTurn      Lease = "turn"
	LeaseRewind    Lease = "rewind"
)

// Filter selects bindings. Every set member must match.
type Filter struct{ Tenant, Config string }

// Matches reports whether b passes the filter.
func (f Filter) Matches(b Binding) bool {
	return (f.Tenant == "" || f.Tenant == b.Tenant) && (f.Config == "" || f.Config == b.Config)
}

// Report is what operators should know about a store.
type Report struct {
	// Kind is "memory", "sqlite" or "redis".
	Kind string
	// Server is the server's own name and version, if there is a server.
	Server string
	// Shared: replicas see the same bindings.
	Shared bool
	// Durable: bindings, and the traffic tokens in them, survive a restart of
	// whatever holds them.
	Durable bool
	// Warnings are settings that endanger sessions, in words.
	Warnings []string
}
