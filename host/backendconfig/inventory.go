package backendconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Inventory lists the live sandboxes that a provider has for an open config: running,
// paused and on their way. The provider's word counts, not that of bindings, which may
// be lost. A listing beyond the filter is refused: what it would end may be others'.
func Inventory(ctx context.Context, b backend.Backend, filter backend.ListFilter) ([]backend.Sandbox, error) {
	info, err := b.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory of config %q: %w", filter.Config, err)
	}
	if !info.Has(backend.CapList) {
		return nil, fmt.Errorf("inventory of config %q: %w", filter.Config,
			backend.Errorf(backend.KindUnsupported, "List", "the provider cannot list its sandboxes"))
	}
	filter.States = nil
	all, err := b.List(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("inventory of config %q: %w", filter.Config, err)
	}
	for _, sb := range all {
		if !filter.Matches(sb) {
			return nil, fmt.Errorf("inventory of config %q: the provider lists a sandbox that is none of the config's", filter.Config)
		}
	}
	return all, nil
}

// releasePasses bounds how often a release looks again for what was made meanwhile.
const releasePasses = 3

// Release ends every sandbox of a config, with the credentials that b has it open
// with: those that are about to go, since others may not reach them. What cannot be
// ended is an error beside the number that was; calling it again goes on.
func Release(ctx context.Context, b backend.Backend, filter backend.ListFilter) (ended int, err error) {
	failed := map[string]bool{}
	var errs []error
	for range releasePasses {
		all, err := Inventory(ctx, b, filter)
		if err != nil {
			return ended, errors.Join(append(errs, err)...)
		}
		all = slices.DeleteFunc(all, func(sb backend.Sandbox) bool { return failed[sb.ID] })
		if len(all) == 0 {
			break
		}
		for _, sb := range all {
			if err := b.Delete(ctx, sb.Ref); err != nil {
				failed[sb.ID] = true
				errs = append(errs, fmt.Errorf("release sandbox %s: %w", sb.ID, err))
				continue
			}
			ended++
		}
		if ctx.Err() != nil {
			return ended, errors.Join(append(errs, ctx.Err())...)
		}
	}
	return ended, errors.Join(errs...)
}
