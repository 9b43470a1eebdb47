package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// config is what an operator may set for one named config. The manifest's
// schema has checked it before.
type config struct {
	// MaxSandboxes bounds live sandboxes; 0 means no bound.
	MaxSandboxes int `json:"max_sandboxes"`
	// MaxSnapshots bounds kept snapshots; 0 means no bound.
	MaxSnapshots int `json:"max_snapshots"`
	// IdleSeconds ends a sandbox that no call has used for so long, TTLSeconds one
	// that was made so long ago; 0 leaves that to the host.
	IdleSeconds int64 `json:"idle_seconds"`
	TTLSeconds  int64 `json:"ttl_seconds"`
}

// defaultMaxSnapshots is that of the manifest.
const defaultMaxSnapshots = 1000

func (c config) check() error {
	for name, n := range map[string]int64{
		"max_sandboxes": int64(c.MaxSandboxes), "max_snapshots": int64(c.MaxSnapshots),
		"idle_seconds": c.IdleSeconds, "ttl_seconds": c.TTLSeconds,
	} {
		if n < 0 {
			return fmt.Errorf("%s: must not be negative", name)
		}
		if n > math.MaxInt64/int64(time.Second) {
			return fmt.Errorf("%s: is too large", name)
		}
	}
	return nil
}

// OpenConfig makes a named config usable.
func (b *Backend) OpenConfig(_ context.Context, id string, raw json.RawMessage) error {
	c, err := parseConfig("OpenConfig", raw)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configs[id] = c
	return nil
}

func parseConfig(op string, raw json.RawMessage) (config, error) {
	c := config{MaxSnapshots: defaultMaxSnapshots}
	if len(bytes.TrimSpace(raw)) == 0 {
		return c, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&c)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		e := backend.Errorf(backend.KindInvalidRequest, op, "config: %w", err)
		e.Subject = backend.SubjectConfig
		return c, e
	}
	return c, nil
}

// CloseConfig forgets a config; its sandboxes stay.
func (b *Backend) CloseConfig(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.configs, id)
	return nil
}

func (b *Backend) config(op, id string) (config, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	c, ok := b.configs[id]
	if !ok {
		e := backend.Errorf(backend.KindNotFound, op, "config %q is not open", id)
		e.Subject, e.Plane = backend.SubjectConfig, backend.PlaneControl
		return c, e
	}
	return c, nil
}
