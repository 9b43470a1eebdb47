package minted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session"
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
	Seen, Ended, Failed int
}

// Sweep ends every session of this deployment that outlived one of its clocks.
// One failure never stops it: failures are counted and joined into the error. A
// sandbox whose times are unknown is left alone, as is one with a run in it.
func (s *Sessions) Sweep(ctx context.Context) (SweepReport, error) {
	var r SweepReport
	var errs []error
	unused := s.uploads.snapshot()
	for _, config := range s.o.Targets.Configs("") {
		err := s.listConfig(ctx, config, "", func(t session.Target, sb backend.Sandbox) {
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
		if err != nil {
			errs = append(errs, err)
		}
	}
	return r, errors.Join(errs...)
}

// reap ends one sandbox after looking at it again: the listing is seconds old.
func (s *Sessions) reap(ctx context.Context, t session.Target, sb backend.Sandbox, unused map[string]time.Time) (bool, error) {
	id := sb.Metadata.Session
	release, ok := s.tryHold(id)
	if !ok {
		return false, nil
	}
	defer release()
	now, err := t.Backend.Get(ctx, sb.Ref)
	if backend.ProvesGone(err) {
		s.uploads.forget(id)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sweep session %s: %w", id, err)
	}
	reason := s.expired(now, unused)
	if reason == "" {
		return false, nil
	}
	if err := t.Backend.Delete(ctx, sb.Ref); err != nil {
		return false, fmt.Errorf("sweep session %s: %w", id, err)
	}
	s.uploads.forget(id)
	s.o.Log.Debug("session ended by its clock", "session", id, "clock", reason)
	return true, nil
}

// expired names the clock that sb outlived, or is empty.
func (s *Sessions) expired(sb backend.Sandbox, unused map[string]time.Time) string {
	now, c := s.o.Now(), s.o.Clocks
	past := func(since time.Time, d time.Duration) bool {
		return d > 0 && !since.IsZero() && now.Sub(since) >= d
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

// Keep sweeps until ctx ends. The caller owns the goroutine it runs in.
func (s *Sessions) Keep(ctx context.Context) {
	tick := time.NewTicker(max(s.o.Clocks.Sweep, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := s.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("sweep incomplete", "seen", r.Seen, "ended", r.Ended, "failed", r.Failed, "error", err)
		}
	}
}
