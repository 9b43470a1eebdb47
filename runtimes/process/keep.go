package process

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/internal/pluginwire"
	"github.com/caisson-run/caisson/internal/procstat"
)

// Keep says that a process may outlive its host, for a while: it is for plugins whose
// live sandboxes would end with it. The host that comes next adopts it (see Adopt). On
// Linux only.
type Keep struct {
	// For is how long it lives without a host, at most an hour; zero keeps nothing.
	For time.Duration
	// Dir is an existing directory that nobody else can enter, for the record of the
	// process and for what it logs.
	Dir string
}

const maxKeep = time.Hour

func (k Keep) check() error {
	switch {
	case k.For == 0:
		return nil
	case k.For < time.Second || k.For > maxKeep:
		return fmt.Errorf("keep: %v is not between 1s and %v", k.For, maxKeep)
	case runtime.GOOS != "linux":
		return errors.New("keep: only on linux can a process be told from another of its number")
	}
	return checkPrivate(k.Dir)
}

// checkPrivate refuses a directory that others can enter.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("keep: %w", err)
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 || wrongOwner(info) != "":
		return &FileError{dir, "not a directory of this user alone", "run chmod 700 " + dir}
	}
	return nil
}

// record is what is written down of a kept process, so that another host finds it
// again and takes no other process for it.
type record struct {
	Schema int    `json:"schema"`
	Name   string `json:"name"`
	// PID, Started (clock ticks since the machine started) and Boot name one process
	// for ever. PID is zero while it starts: a host that dies then leaves no process,
	// but what the record names.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	Boot    string `json:"boot"`
	// SHA256 is that of the program, Fit what else it was started with.
	SHA256   string `json:"sha256"`
	Fit      string `json:"fit"`
	Protocol int    `json:"protocol"`
	Sockets  string `json:"sockets"`
	Address  string `json:"address"`
	Log      string `json:"log"`
}

const (
	recordSchema = 1
	recordEnding = ".kept.json"
	maxRecord    = 64 << 10
)

// fit stands for what a process was started with: one with another environment is
// another.
func fit(spec Spec) string {
	env := slices.Clone(spec.Env)
	slices.Sort(env)
	sum := sha256.New()
	for _, s := range append([]string{spec.Path, spec.Keep.For.String()}, env...) {
		fmt.Fprintf(sum, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// kept is what a host holds of a process that may outlive it. The record is locked
// as long as the host lives, so that nobody else takes the process for forgotten.
type kept struct {
	path   string
	file   *os.File // the record, locked
	record record
	log    *keptLog
}

// beginKept prepares for a process that is about to be started, and writes down what is
// made for it.
func beginKept(spec Spec, bin *binary, sockets *socketDir) (*kept, error) {
	if bin.script {
		return nil, errors.New("keep: a script cannot be kept: what runs is its interpreter")
	}
	sum, err := digest(bin.file)
	if err != nil {
		return nil, fmt.Errorf("keep: %w", err)
	}
	f, err := os.CreateTemp(spec.Keep.Dir, spec.Name+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("keep: %w", err)
	}
	path := f.Name()
	_ = f.Close()
	log, err := openKeptLog(path)
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("keep: %w", err)
	}
	k := &kept{
		path: strings.TrimSuffix(path, ".log") + recordEnding, log: log,
		record: record{
			Schema: recordSchema, Name: spec.Name, SHA256: sum, Fit: fit(spec),
			Protocol: pluginwire.ProtocolVersion, Log: path, Sockets: sockets.path,
		},
	}
	if err := k.write(); err != nil {
		k.remove()
		return nil, err
	}
	return k, nil
}

// digest reads f from its beginning, wherever it stands.
func digest(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// serves writes down the process, which serves at address.
func (k *kept) serves(pid int, address string) error {
	r := &k.record
	var err error
	if r.Boot, err = bootID(); err == nil {
		r.Started, err = procstat.Started(pid)
	}
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	r.PID, r.Address = pid, address
	return k.write()
}

// write puts the record in the place of what was written before.
func (k *kept) write() error {
	b, err := json.Marshal(k.record)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(k.path), ".kept-*")
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	_, err = f.Write(b)
	// Locked before it has its name: there is no moment at which it looks forgotten.
	if err = errors.Join(err, f.Sync()); err == nil {
		err = lockFile(f)
	}
	if err == nil {
		err = os.Rename(f.Name(), k.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		_ = f.Close()
		return fmt.Errorf("keep: %w", err)
	}
	if k.file != nil {
		_ = k.file.Close()
	}
	k.file = f
	return nil
}

// remove forgets a process that has ended. k may be nil.
func (k *kept) remove() {
	if k == nil {
		return
	}
	if k.file != nil {
		_ = os.Remove(k.path)
		_ = k.file.Close()
	}
	_ = os.Remove(k.log.path)
	k.log.close()
}

// readRecord reads a record that nobody else can have written, and locks it. A nil
// record without an error is held by a host that lives.
func readRecord(path string) (*record, *os.File, error) {
	f, err := openRecord(path)
	if err != nil {
		return nil, nil, err
	}
	if lockFile(f) != nil {
		_ = f.Close()
		return nil, nil, nil
	}
	r, err := parseRecord(f)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return r, f, nil
}

func parseRecord(from io.Reader) (*record, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxRecord {
		return nil, fmt.Errorf("not a record of a kept process: it has more than %d bytes", maxRecord)
	}
	var r record
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("not a record of a kept process: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a record of a kept process: something follows it")
	}
	own := filepath.IsAbs(r.Sockets) && filepath.Clean(r.Sockets) == r.Sockets && strings.HasPrefix(filepath.Base(r.Sockets), keptPrefix)
	if r.Schema != recordSchema || r.PID <= 1 && r.PID != 0 || !own {
		return nil, errors.New("not a record of a kept process")
	}
	return &r, nil
}

// forget removes a record in dir that was read, and what it names, of a process that has
// ended.
func (k *kept) forget(dir string) {
	if k.log != nil {
		k.log.close()
	}
	if checkPrivate(k.record.Sockets) == nil {
		_ = os.RemoveAll(k.record.Sockets)
	}
	if filepath.Dir(k.record.Log) == dir {
		_ = os.Remove(k.record.Log)
	}
	_ = os.Remove(k.path)
	_ = k.file.Close()
}
