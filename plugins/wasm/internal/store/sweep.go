package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Due says why a sandbox should end now; empty means that it should not.
type Due func(r Record, active time.Time) (reason string)

// SweepReport counts what a sweep did.
type SweepReport struct {
	Seen, Ended int
	// InUse were due but are being used, by this process or another.
	InUse int
	// Damaged have no record that can be read and were put aside.
	Damaged int
}

// Sweep ends the sandboxes of a config that are due. One that is in use is left
// alone, as is one that was touched or prolonged since it was looked at. A failure
// stops nothing; failures are joined into the error.
func (s *Store) Sweep(ctx context.Context, config string, due Due) (SweepReport, error) {
	var report SweepReport
	var errs []error
	err := s.IDs(config, func(id string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		report.Seen++
		k := key{config, id}
		r, seen, err := read(s.path(k), k)
		switch {
		case errors.Is(err, ErrDamaged):
			if err := s.putAside(k); err != nil {
				errs = append(errs, err)
				return nil
			}
			report.Damaged++
			return nil
		case errors.Is(err, ErrAbsent):
			return nil // or, without a record, not ours to judge
		case err != nil:
			errs = append(errs, fmt.Errorf("sandbox %s: %w", id, err))
			return nil
		case due(r, time.Unix(0, seen.active)) == "":
			return nil
		}
		switch err := s.end(ctx, k, due); {
		case err == nil:
			report.Ended++
		case errors.Is(err, errInUse):
			report.InUse++
		case !errors.Is(err, errNotDue) && !errors.Is(err, ErrAbsent):
			errs = append(errs, fmt.Errorf("sandbox %s: %w", id, err))
		}
		return nil
	})
	return report, errors.Join(append(errs, err)...)
}

var (
	errInUse  = errors.New("in use")
	errNotDue = errors.New("not due any more")
)

// end removes a sandbox that nobody uses and that still is due.
func (s *Store) end(ctx context.Context, k key, due Due) error {
	path := s.path(k)
	lock, err := lockDir(path, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errInUse
	}
	if err != nil {
		return absent(err)
	}
	// Nobody can take it into use now. What was read before may be old.
	trash, err := func() (string, error) {
		defer lock.close()
		if err := lock.at(path); err != nil {
			return "", errNotDue
		}
		r, seen, err := read(path, k)
		if err != nil {
			return "", err
		}
		if due(r, time.Unix(0, seen.active)) == "" {
			return "", errNotDue
		}
		return s.discard(path)
	}()
	if err != nil {
		return err
	}
	if b := s.forget(k); b != nil {
		b.cancel(errDeleted) // taken into use in this very moment
	}
	return s.bury(ctx, trash)
}

// putAside moves a sandbox that belongs to nobody out of the way, for people to
// look at: its name is free again, and its files are kept.
func (s *Store) putAside(k key) error {
	dir := filepath.Join(s.dir, "damaged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(s.path(k), unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("sandbox %s has no readable record and is in use: %w", k.id, err)
	}
	defer lock.close()
	if err := os.Rename(s.path(k), filepath.Join(dir, k.config+"."+k.id+"."+randomName())); err != nil {
		return fmt.Errorf("sandbox %s has no readable record: %w", k.id, err)
	}
	s.forget(k)
	return nil
}
