package sandboxes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types/filters"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// config is one open config with its engine and the containers that wait for it.
type config struct {
	id    string
	raw   json.RawMessage
	set   settings.Settings
	at    settings.Endpoint
	eng   *engine.Engine
	pool  *pool
	watch *watch
	// bySession are the containers that this process works with; Backend.mu guards it.
	bySession map[string]*box

	warned atomic.Bool // that there is no agent

	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// newConfig reads a config. Nothing is asked and nothing started.
func (b *Backend) newConfig(op, id string, raw json.RawMessage) (*config, error) {
	refuse := func(kind backend.Kind, err error) error {
		return engine.Errorf(kind, op, backend.SubjectConfig, "config: %w", err)
	}
	set, err := settings.Parse(raw)
	if errors.Is(err, settings.ErrOff) {
		return nil, refuse(backend.KindInvalidRequest, err)
	}
	if err != nil {
		return nil, refuse(backend.KindInvalidRequest, err)
	}
	at, err := set.Endpoint(b.o.Getenv)
	if err != nil {
		return nil, refuse(backend.KindInvalidRequest, err)
	}
	if set.Agent == settings.AgentSocket && !at.Local() {
		return nil, refuse(backend.KindInvalidRequest, errors.New("agent: a socket needs an engine on this machine; use exec"))
	}
	eng, err := engine.Open(at)
	if err != nil {
		return nil, refuse(backend.KindAuthentication, err)
	}
	return &config{id: id, raw: bytes.Clone(raw), set: set, at: at, eng: eng, bySession: make(map[string]*box)}, nil
}

// OpenConfig makes a named config usable. The engine may be down: what it says is
// said by the calls that need it.
func (b *Backend) OpenConfig(_ context.Context, id string, raw json.RawMessage) error {
	const op = "OpenConfig"
	c, err := b.newConfig(op, id, raw)
	if err != nil {
		return err
	}
	b.mu.Lock()
	old := b.configs[id]
	if b.life.Err() != nil || old != nil && bytes.Equal(old.raw, c.raw) {
		b.mu.Unlock()
		c.eng.Close()
		return b.life.Err()
	}
	b.configs[id] = c
	life, stop := context.WithCancel(b.life)
	c.stop = stop
	c.watch = newWatch(b, c)
	c.pool = newPool(b, c)
	c.tasks.Go(func() { c.watch.keep(life) })
	c.tasks.Go(func() { c.pool.keep(life) })
	b.mu.Unlock()
	if old != nil {
		b.forgetBoxes(old)
		old.close()
	}
	return nil
}

// CloseConfig forgets a config; its sandboxes stay, what waited for it ends.
func (b *Backend) CloseConfig(_ context.Context, id string) error {
	b.mu.Lock()
	c := b.configs[id]
	delete(b.configs, id)
	b.mu.Unlock()
	if c != nil {
		b.forgetBoxes(c)
		c.close()
	}
	return nil
}

func (c *config) close() {
	c.stop()
	c.tasks.Wait()
	c.pool.drain()
	c.pool.b.leaveNothing(c)
	c.eng.Close()
}

func (b *Backend) config(op, id string) (*config, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	c, ok := b.configs[id]
	if !ok {
		e := engine.Errorf(backend.KindNotFound, op, backend.SubjectConfig, "config %q is not open", id)
		e.Plane = backend.PlaneControl
		return nil, e
	}
	return c, nil
}

// name is that of a session's container.
func (c *config) name(session string) string { return namePrefix(c.id) + session }

// filter selects the containers and images of this config.
func (c *config) filter(more ...filters.KeyValuePair) filters.Args {
	return filters.NewArgs(append(more, filters.Arg("label", labelConfig+"="+c.id))...)
}
