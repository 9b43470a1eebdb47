package backendconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// CordonTime is how long a cordon lasts unless it is renewed, which happens at a third
// of it.
const CordonTime = 30 * time.Second

// Errors of changing a config.
var (
	// ErrInUse: the provider has sandboxes that the changed config would not reach. End
	// them first, or ask for them to be ended.
	ErrInUse = errors.New("the config has live sandboxes")
	// ErrBusy: somebody else is changing the config.
	ErrBusy = errors.New("the config is being changed by somebody else")
)

// InUseError says how many sandboxes are in the way. It wraps ErrInUse.
type InUseError struct {
	Config string
	Count  int
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("config %q: the provider has %d live sandboxes that would be lost: end them first, or have them ended with the change", e.Config, e.Count)
}

// Is makes errors.Is(err, ErrInUse) true.
func (e *InUseError) Is(target error) bool { return target == ErrInUse }

// Change is a change of one named config.
type Change struct {
	// Config is the id; Deployment tells hosts apart that share one provider.
	Config, Deployment string
	// Description is that of the plugin, and of the new one when the plugin changes.
	Description, Next *Description
	// Old is the config as it is, New as it will be; nil deletes it.
	Old, New json.RawMessage
	// Backend has the config open as it is.
	Backend backend.Backend
	// Cordons keeps work away meanwhile.
	Cordons Cordons
	// Release ends the sandboxes that would be lost, instead of refusing the change.
	Release bool
	// Store writes the change down. It is called with the config cordoned when
	// sandboxes could be lost, and its context ends when the cordon is lost.
	Store func(ctx context.Context) error
}

// Apply makes a change: it refuses a new config that lacks something, writes down at
// once what leaves the sandboxes alone, and otherwise cordons the config, looks at what
// the provider has, ends it with the outgoing credentials when told to, and only then
// writes the change down. When ending fails half-way nothing is written down: the
// credentials are still needed.
func (c Change) Apply(ctx context.Context) error {
	next := c.Next
	if next == nil {
		next = c.Description
	}
	if c.New != nil {
		if err := next.Check(c.New); err != nil {
			return fmt.Errorf("config %q: %w", c.Config, err)
		}
		if next.plugin == c.Description.plugin && next.SandboxIdentity(c.New) == c.Description.SandboxIdentity(c.Old) {
			return c.Store(ctx)
		}
	}
	return Keep(ctx, c.Cordons, []string{c.Config}, func(ctx context.Context) error {
		filter := backend.ListFilter{Config: c.Config, Deployment: c.Deployment}
		live, err := Inventory(ctx, c.Backend, filter)
		if err != nil {
			return err
		}
		if len(live) > 0 && !c.Release {
			return &InUseError{c.Config, len(live)}
		}
		if len(live) > 0 {
			if _, err := Release(ctx, c.Backend, filter); err != nil {
				return fmt.Errorf("config %q is unchanged: %w", c.Config, err)
			}
		}
		return c.Store(ctx)
	})
}
