package minted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// uploads remembers the uploads of this process that no run has used yet. It is
// only ever a reason to end a session earlier: after a restart the idle clock
// alone decides.
type uploads struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// MarkUploaded notes that id received an upload which no run has used.
func (s *Sessions) MarkUploaded(id string) {
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	if s.uploads.last == nil {
		s.uploads.last = make(map[string]time.Time)
	}
	s.uploads.last[id] = s.o.Now()
}

// MarkUsed notes that a run used the files of id.
func (s *Sessions) MarkUsed(id string) { s.uploads.forget(id) }

func (u *uploads) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.last, id)
}

func (u *uploads) snapshot() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.last)
}

// SweepReport counts what a sweep did.
type SweepReport struct {
	// Seen sandboxes, those Ended, and those that Failed to end.
	Seen, Ended, Failed int
	// Managed are sandboxes of managed sessions, which are none of a sweep's business.
	Managed int
}

// Add adds what another sweep did.
func (r *SweepReport) Add(o SweepReport) {
	r.Seen, r.Ended, r.Failed, r.Managed = r.Seen+o.Seen, r.Ended+o.Ended, r.Failed+o.Failed, r.Managed+o.Managed
}

// Sweep ends every session of this deployment that outlived one of its clocks.
// One failure never stops it: failures are counted and joined into the error. A
// sandbox whose times are unknown is left alone, as is one with a run in it on any
// replica. Any number of replicas may sweep at once: each sandbox is looked at again
// under its own lock.
func (s *Sessions) Sweep(ctx context.Context) (SweepReport, error) {
	var r SweepReport
	var errs []error
	for _, config := range s.o.Targets.Configs("") {
		one, err := s.SweepConfig(ctx, config)
		r.Add(one)
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// SweepConfig is Sweep for one config.
func (s *Sessions) SweepConfig(ctx context.Context, config string) (SweepReport, error) {
	var r SweepReport
	var errs []error
	unused := s.uploads.snapshot()
	err := s.listConfig(ctx, config, "", func(t session.Target, sb backend.Sandbox) {
		if sb.Metadata.Labels[session.LabelSession] != "" {
			r.Managed++
			return
		}
		r.Seen++
		if s.expired(sb, unused) == "" || ctx.Err() != nil {
			return
		}
		ended, err := s.reap(ctx, t, sb, unused)
		if err != nil {
			r.Failed++
			errs = append(errs, err)
		} else if ended {
			r.Ended++
		}
	})
	return r, errors.Join(append(errs, err)...)
}

// reap ends one sandbox after looking at it again under its lock: the listing is
// seconds old.
func (s *Sessions) reap(ctx context.Context, t session.Target, sb backend.Sandbox, unused map[string]time.Time) (ended bool, err error) {
	id := sb.Metadata.Session
	release, ok := s.tryHold(id)
	if !ok {
		return false, nil
	}
	defer release()
	if binding.Key.Validate(keyOf(id)) != nil {
		return false, fmt.Errorf("sweep session %q: not one of ours", id)
	}
	err = s.o.Store.WithLifecycleLock(ctx, keyOf(id), func(_ context.Context, own *binding.Ownership) error {
		ctx := own.Context() // what was begun ends, unless the lock is lost
		st, err := s.o.Store.State(ctx, keyOf(id), binding.Keep)
		if err != nil || st.Busy() {
			return err
		}
		now, err := t.Backend.Get(ctx, sb.Ref)
		if backend.ProvesGone(err) {
			s.uploads.forget(id)
			return nil
		}
		if err != nil {
			return err
		}
		reason := s.expired(now, unused)
		if reason == "" {
			return nil
		}
		if err := own.Verify(ctx); err != nil {
			return err
		}
		if err := s.end(ctx, t, now); err != nil {
			return err
		}
		ended = true
		s.o.Log.Debug("session ended by its clock", "session", id, "clock", reason)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("sweep session %s: %w", id, err)
	}
	return ended, nil
}

// expired names the clock that sb outlived, or is empty.
func (s *Sessions) expired(sb backend.Sandbox, unused map[string]time.Time) string {
	now, c := s.o.Now(), s.o.Clocks
	past := func(since time.Time, d time.Duration) bool {
		return d > 0 && !since.IsZero() && now.Sub(since) >= d
	}
	if until := sb.Metadata.Labels[session.LabelUntil]; until != "" {
		// It has a clock of its own and no other. One that cannot be read is ours all
		// the same, and the deployment's holds.
		if at, err := time.Parse(time.RFC3339, until); err == nil {
			if now.After(at) {
				return "until"
			}
			return ""
		}
	}
	switch {
	case past(sb.Created, c.TTL):
		return "ttl"
	case past(sb.LastActive, c.Idle):
		return "idle"
	case past(unused[sb.Metadata.Session], c.UnusedUpload):
		return "unused upload"
	default:
		return ""
	}
}
