package session

import (
	"context"
	"errors"
	"fmt"
)

// Resolver finds the Manager for a tenant and a named config. It is safe for
// concurrent use.
type Resolver struct{ o ManagerOptions }

// NewResolver returns a Resolver whose Managers take after o, whose Tenant and
// Config are left empty. With a store that replicas share, o.Exists must really ask
// somebody.
func NewResolver(ctx context.Context, o ManagerOptions) (*Resolver, error) {
	if o.Tenant != "" || o.Config != "" {
		return nil, errors.New("session resolver: tenant and config are arguments of Resolve")
	}
	probe := o
	probe.Tenant, probe.Config = "-", "-"
	if _, err := NewManager(probe); err != nil {
		return nil, err
	}
	if _, permissive := o.Exists.(AlwaysExists); permissive {
		r, err := o.Store.Check(ctx)
		if err != nil {
			return nil, fmt.Errorf("session resolver: %w", err)
		}
		if r.Shared {
			return nil, errors.New("session resolver: replicas share the binding store, so Exists has to ask where sessions are kept: AlwaysExists would let deleted sessions come back")
		}
	}
	return &Resolver{o}, nil
}

// Resolve returns the Manager of a tenant's named config; an empty config is the
// tenant's default. A config that does not exist is ErrConfigNotFound and one that
// is being changed ErrConfigCordoned: work never goes where it was not sent.
func (r *Resolver) Resolve(ctx context.Context, tenant, config string) (*Manager, error) {
	return r.ResolveFor(ctx, tenant, config, nil)
}

// ResolveFor is Resolve with options of this caller: its user, its payer, what its
// sandboxes are made of. change must not touch Tenant and Config.
func (r *Resolver) ResolveFor(ctx context.Context, tenant, config string, change func(*ManagerOptions)) (*Manager, error) {
	if tenant == "" {
		return nil, errors.New("session resolver: no tenant")
	}
	var t Target
	var err error
	if config == "" {
		t, err = r.o.Targets.Default(ctx, tenant)
	} else {
		t, err = r.o.Targets.Named(ctx, tenant, config)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox config %q: %w", config, err)
	}
	t.Release()
	o := r.o
	if change != nil {
		change(&o)
	}
	o.Tenant, o.Config = tenant, t.Config
	return NewManager(o)
}
