package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// WorkPrefix begins the names of directories that processes make for themselves in a
// cache, and remove unless they are killed.
const WorkPrefix = "caisson-"

// keepWork is after what time nobody works in such a directory any more.
const keepWork = 7 * 24 * time.Hour

// How long an entry is kept that nobody uses: one of the sweeper's own generation, and
// one of another, whose program may be about to be replaced, or to come back.
const (
	keepOwn   = 30 * 24 * time.Hour
	keepOther = 3 * 24 * time.Hour
)

// entryName matches the names of files of entries. Early ones had no generation.
var entryName = regexp.MustCompile(`^([0-9a-f]{32}(?:-([0-9a-f]{8}))?)\.`)

// Sweep deletes the entries that no process has used for a while, but for those that
// one is using, and directories with WorkPrefix, and returns how many it deleted. What
// has another name is left alone. A process that has read an entry needs it no more.
func Sweep(dir, generation string, now time.Time) (deleted int, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("cache: sweep: %w", err)
	}
	entries := map[string][]string{}
	keep := map[string]time.Duration{}
	var errs []error
	for _, e := range list {
		m := entryName.FindStringSubmatch(e.Name())
		if m == nil {
			if strings.HasPrefix(e.Name(), WorkPrefix) && e.IsDir() && unusedSince(dir, []string{e.Name()}, now.Add(-keepWork)) {
				errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
				deleted++
			}
			continue
		}
		entries[m[1]] = append(entries[m[1]], e.Name())
		if keep[m[1]] = keepOther; m[2] == generation {
			keep[m[1]] = keepOwn
		}
	}
	for base, names := range entries {
		// Nearly all are young: these are not even locked.
		if !unusedSince(dir, names, now.Add(-keep[base])) {
			continue
		}
		ok, err := sweep(dir, base, now.Add(-keep[base]))
		if ok {
			deleted++
		}
		errs = append(errs, err)
	}
	return deleted, errors.Join(errs...)
}

// sweep deletes one entry if it is still unused when it is locked.
func sweep(dir, base string, since time.Time) (deleted bool, err error) {
	path := filepath.Join(dir, base)
	_, err = os.Lstat(path + lockExt)
	made := errors.Is(err, fs.ErrNotExist) // an early entry: the lock file is ours
	at, cancel := context.WithCancel(context.Background())
	cancel() // do not wait: who holds it uses the entry
	f, err := lock(at, path)
	if errors.Is(err, context.Canceled) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	list, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("cache: sweep: %w", err)
	}
	var names []string
	for _, e := range list {
		if name := e.Name(); strings.HasPrefix(name, base+".") && (name != base+lockExt || !made) {
			names = append(names, name)
		}
	}
	if !unusedSince(dir, names, since) {
		return false, nil
	}
	for _, name := range names {
		if name != base+lockExt {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	if err == nil { // last, so that what could not be removed has its age
		err = os.Remove(path + lockExt)
	}
	if err != nil {
		return false, fmt.Errorf("cache: sweep: %w", err)
	}
	return true, nil
}

// unusedSince reports whether none of the files was touched at or after a time. Files
// that are gone do not count.
func unusedSince(dir string, names []string, since time.Time) bool {
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && !info.ModTime().Before(since) {
			return false
		}
	}
	return true
}
