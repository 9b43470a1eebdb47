package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"golang.org/x/sys/unix"
)

// recordSchema is the version of Record on disk. Others are refused.
const recordSchema = 1

// recordFile is the record's name in a sandbox's directory. Its modification time
// is the last activity of the sandbox.
const recordFile = "record.json"

// maxRecord bounds a record that is read: far more than one can be made with.
const maxRecord = 4 << 20

// Record is what is known of a sandbox from its making. It never changes but
// for Expires.
type Record struct {
	Schema   int               `json:"schema"`
	Config   string            `json:"config"`
	ID       string            `json:"id"`
	Created  time.Time         `json:"created"`
	Expires  time.Time         `json:"expires,omitzero"`
	Metadata backend.Metadata  `json:"metadata"`
	Env      map[string]string `json:"env,omitempty"`
	Limits   backend.Limits    `json:"limits,omitzero"`
}

// ErrDamaged: the record of a sandbox cannot be read. That is no proof that the
// sandbox is gone.
var ErrDamaged = errors.New("sandbox record is damaged")

// newRecord makes the record of a sandbox in a directory that nobody else knows;
// active becomes its modification time.
func newRecord(dir string, r any, active time.Time) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return err
	}
	return setActive(path, active)
}

// replaceRecord replaces a record as a whole.
func replaceRecord(dir string, r any, active time.Time) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	tmp := path + "." + randomName()
	err = os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = setActive(tmp, active)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// setActive sets the times of a record file.
func setActive(path string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// seen is which file a record was read from, and when it was touched last: while
// both are the same, so is what it says.
type seen struct {
	dev, ino uint64
	active   int64 // nanoseconds since 1970
}

// lookRecord returns what tells one state of a record from another.
func lookRecord(dir string) (seen, error) {
	var st unix.Stat_t
	err := unix.Fstatat(unix.AT_FDCWD, filepath.Join(dir, recordFile), &st, unix.AT_SYMLINK_NOFOLLOW)
	return seenOf(&st), absent(err)
}

func seenOf(st *unix.Stat_t) seen {
	return seen{dev: uint64(st.Dev), ino: uint64(st.Ino), active: unix.TimespecToNsec(st.Mtim)}
}

// absent turns the system's way to say that there is no such sandbox into ours.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return ErrAbsent
	}
	return err
}

// readRecord reads the record of a sandbox.
func readRecord(dir string, r any) (seen, error) {
	f, err := os.OpenFile(filepath.Join(dir, recordFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return seen{}, absent(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return seen{}, err
	}
	if st.Size == 0 || st.Size > maxRecord {
		return seen{}, fmt.Errorf("%w: it has %d bytes", ErrDamaged, st.Size)
	}
	b := make([]byte, st.Size)
	if n, err := f.ReadAt(b, 0); n < len(b) { // it is never changed in place
		return seen{}, fmt.Errorf("read sandbox record: %w", err)
	}
	if err := json.Unmarshal(b, r); err != nil {
		return seen{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return seenOf(&st), nil
}

// read returns the record of the sandbox in dir, which must be that sandbox's.
func read(dir string, k key) (Record, seen, error) {
	var r Record
	s, err := readRecord(dir, &r)
	switch {
	case err != nil:
	case r.Schema != recordSchema:
		err = fmt.Errorf("sandbox record has schema %d, this version reads %d", r.Schema, recordSchema)
	case r.Config != k.config || r.ID != k.id:
		err = fmt.Errorf("%w: it belongs to another sandbox", ErrDamaged)
	}
	return r, s, err
}
