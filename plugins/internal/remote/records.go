package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
)

// record is what only this process was told about a sandbox: tokens that are handed
// out once, metadata that a provider may lose, an environment that it does not keep.
type record struct {
	AccessToken  string            `json:"access_token,omitempty"`
	TrafficToken string            `json:"traffic_token,omitempty"`
	Domain       string            `json:"domain,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	Created      time.Time         `json:"created,omitzero"`
}

func (r record) endpoint() envd.Endpoint {
	return envd.Endpoint{AccessToken: r.AccessToken, TrafficToken: r.TrafficToken, Domain: r.Domain}
}

// records keeps them, one file each, readable by the plugin's user only; without a
// directory in memory. It is safe for concurrent use.
type records struct {
	dir, config string

	mu     sync.Mutex
	memory map[string]record
}

// folder is a config's: what a config is called says nothing about file names.
func (r *records) folder() string {
	sum := sha256.Sum256([]byte(r.config))
	return filepath.Join(r.dir, "sandboxes", hex.EncodeToString(sum[:8]))
}

func (r *records) file(id string) string { return filepath.Join(r.folder(), id+".json") }

// keep writes a record. The id is a valid one, which holds no separator.
func (r *records) keep(id string, rec record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == "" {
		if r.memory == nil {
			r.memory = make(map[string]record)
		}
		r.memory[id] = rec
		return nil
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("record of a sandbox: %w", err)
	}
	if err := os.MkdirAll(r.folder(), 0o700); err != nil {
		return fmt.Errorf("record of a sandbox: %w", err)
	}
	f, err := os.CreateTemp(r.folder(), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("record of a sandbox: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), r.file(id))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("record of a sandbox: %w", err)
	}
	return nil
}

// find returns a record, also one of an earlier process.
func (r *records) find(id string) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == "" {
		rec, ok := r.memory[id]
		return rec, ok
	}
	text, err := os.ReadFile(r.file(id))
	var rec record
	if err != nil || json.Unmarshal(text, &rec) != nil {
		return record{}, false
	}
	return rec, true
}

// remove forgets a record; an absent one is fine.
func (r *records) remove(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == "" {
		delete(r.memory, id)
		return nil
	}
	if err := os.Remove(r.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// older returns the ids of records on file that were made before a moment; the zero
// time returns all.
func (r *records) older(than time.Time) []string {
	if r.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(r.folder())
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		id, ok := trimSuffix(e.Name(), ".json")
		if info, err := e.Info(); ok && err == nil && (than.IsZero() || info.ModTime().Before(than)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func trimSuffix(s, suffix string) (string, bool) {
	if len(s) <= len(suffix) || s[len(s)-len(suffix):] != suffix || s[0] == '.' {
		return "", false
	}
	return s[:len(s)-len(suffix)], true
}
