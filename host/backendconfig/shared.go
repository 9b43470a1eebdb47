package backendconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// lookEvery is how long a replica goes by what it heard about a cordon, so that work
// does not wait for the store each time.
const lookEvery = 2 * time.Second

// shared keeps cordons where all replicas look, in their session store.
type shared struct {
	store *binding.Store
	now   func() time.Time

	mu    sync.Mutex
	heard map[string]answer
}

type answer struct {
	held bool
	at   time.Time
}

// Shared returns the cordons of all replicas that share a session store. Each of them
// looks every two seconds. now is the clock; nil means time.Now.
func Shared(store *binding.Store, now func() time.Time) Cordons {
	if now == nil {
		now = time.Now
	}
	return &shared{store: store, now: now, heard: make(map[string]answer)}
}

// A cordon is an activity of one kind, of which there is one at most.
const kindCordon = "cordon"

func cordonKey(config string) binding.Key {
	sum := sha256.Sum256([]byte(config)) // names may be long
	return binding.Key{Tenant: "_cordon", Session: hex.EncodeToString(sum[:16])}
}

// Hold implements Cordons.
func (s *shared) Hold(ctx context.Context, config, holder string, ttl time.Duration) (bool, error) {
	err := s.store.AddWork(ctx, cordonKey(config), binding.Work{ID: holder, Kind: kindCordon}, ttl, 1)
	if errors.Is(err, binding.ErrWorkLimit) {
		return false, nil
	}
	if err == nil {
		s.hear(config, true)
	}
	return err == nil, err
}

// Lift implements Cordons.
func (s *shared) Lift(ctx context.Context, config, holder string) error {
	s.mu.Lock()
	delete(s.heard, config)
	s.mu.Unlock()
	return s.store.RemoveWork(ctx, cordonKey(config), holder)
}

// Cordoned implements Cordons. While the store cannot be asked there are no cordons:
// nobody can take one then, and whoever has one cannot renew it and stops.
func (s *shared) Cordoned(ctx context.Context, config string) (bool, error) {
	s.mu.Lock()
	last, ok := s.heard[config]
	s.mu.Unlock()
	if age := s.now().Sub(last.at); ok && age >= 0 && age < lookEvery {
		return last.held, nil
	}
	work, err := s.store.Work(ctx, cordonKey(config))
	if err != nil && (ctx.Err() != nil || !errors.Is(err, binding.ErrUnavailable)) {
		return false, err
	}
	s.hear(config, len(work) > 0)
	return len(work) > 0, nil
}

func (s *shared) hear(config string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[config] = answer{held, s.now()}
}

// Settle implements Cordons.
func (s *shared) Settle() time.Duration { return lookEvery + lookEvery/4 }
