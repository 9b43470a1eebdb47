package binding

import (
	"context"
	"time"
)

// AddWork registers a background activity for lease, or renews and replaces one of
// the same id. At most limit of its kind may be live: more are ErrWorkLimit. During a
// rewind it is ErrRewindLocked. While it is live, nobody rebuilds or rewinds the
// session's sandbox.
func (s *Store) AddWork(ctx context.Context, key Key, w Work, lease time.Duration, limit int) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if err := w.Validate(); err != nil {
		return err
	}
	if err := checkLease(lease); err != nil {
		return err
	}
	if limit <= 0 {
		return &FieldError{Field: "limit", Rule: "must be positive"}
	}
	_, err := ask(ctx, s, "add work", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.engine.AddWork(ctx, key, w, lease, limit)
	})
	return err
}

// RenewWork starts an activity's lease again. It is false if the activity is gone:
// its lease ended, and what it protected may have been replaced.
func (s *Store) RenewWork(ctx context.Context, key Key, id string, lease time.Duration) (bool, error) {
	if err := checkWork(key, id); err != nil {
		return false, err
	}
	if err := checkLease(lease); err != nil {
		return false, err
	}
	return ask(ctx, s, "renew work", func(ctx context.Context) (bool, error) {
		return s.engine.RenewWork(ctx, key, id, lease)
	})
}

// RemoveWork ends an activity. One that is gone already is no error.
func (s *Store) RemoveWork(ctx context.Context, key Key, id string) error {
	if err := checkWork(key, id); err != nil {
		return err
	}
	_, err := ask(ctx, s, "remove work", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.engine.RemoveWork(ctx, key, id)
	})
	return err
}

// Work lists a session's live activities by id.
func (s *Store) Work(ctx context.Context, key Key) ([]Work, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	return ask(ctx, s, "list work", func(ctx context.Context) ([]Work, error) { return s.engine.Work(ctx, key) })
}

func checkWork(key Key, id string) error {
	if err := key.Validate(); err != nil {
		return err
	}
	return Work{ID: id, Kind: "any"}.Validate()
}

func checkLease(lease time.Duration) error {
	if lease < 100*time.Millisecond || lease > 24*time.Hour {
		return &FieldError{Field: "lease", Rule: "must be from 100ms to 24h"}
	}
	return nil
}
