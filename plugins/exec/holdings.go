package exec

import (
	"context"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"github.com/caisson-run/caisson/sdk/backend"
)

// holdings finds out from the providers what a tenant keeps in uploads. Files
// that were uploaded into a session of a run count for as long as this process
// remembers them: the provider does not tell them from what the run wrote.
type holdings struct{ i *Interpreter }

var _ quota.Source = holdings{}

func (h holdings) Held(ctx context.Context, tenant string, known func(string) bool) (map[string]quota.Usage, error) {
	sandboxes, err := h.i.host.Sessions().List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	f := h.i.finder(session.Owner{Tenant: tenant})
	defer f.release()
	held := make(map[string]quota.Usage)
	for _, sb := range sandboxes {
		id := sb.Metadata.Session
		switch {
		case known(id):
			held[id] = quota.Usage{}
		case sb.Metadata.Origin != string(session.OriginUpload):
		case sb.State != backend.StateRunning:
			held[id] = quota.Usage{Files: 1} // at least; counting wakes nothing
		default:
			u, err := h.count(ctx, f, id)
			if err != nil && !gone(err) {
				return nil, err
			}
			if err == nil {
				held[id] = u
			}
		}
	}
	return held, nil
}

func (h holdings) count(ctx context.Context, f *finder, id string) (quota.Usage, error) {
	x, err := f.lookup(ctx, id)
	if err != nil {
		return quota.Usage{}, err
	}
	files, err := f.contents(ctx, x, nil)
	u := quota.Usage{Files: int64(len(files))}
	for _, e := range files {
		u.Bytes += e.Size
	}
	return u, err
}
