// Package deployment puts a configured Caisson together: host, entry, admission
// and ledger. It is what an embedding platform would write for itself.
//
// It reads no flags and prints nothing.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/admission"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/caisson-run/caisson/plugins/exec/mcp"
	"github.com/hashicorp/go-hclog"
)

// Options say what to open.
type Options struct {
	// File is the configuration.
	File config.File
	// DataDir exists and belongs to this process. Local makes its own.
	DataDir string
	// CacheDir may be shared with other processes; empty means DataDir/cache.
	CacheDir string
	// LedgerPath is where the SQLite ledger is, if there is to be one.
	LedgerPath string
	PluginDirs []string
	// Keys of the deployment. Local makes its own.
	Keys *identity.Keys
	// LookupEnv is os.LookupEnv: secrets and fees are read through it.
	LookupEnv func(string) (string, bool)
	Log       hclog.Logger
	// Telemetry measures the deployment; nil measures nothing.
	Telemetry *telemetry.Telemetry
	// Version is told to clients that ask for it.
	Version string

	reattach bool // DataDir outlives this process
}

// Router takes the routes and answers them. *http.ServeMux is one.
type Router interface {
	host.Router
	http.Handler
}

// defaultFee is the price of a run where the environment says nothing, in
// cents (docs/operators.md).
const defaultFee = 1

// Fee is the price of an act in cents.
func Fee(lookup func(string) (string, bool), act host.Act) int64 {
	def := int64(0)
	if act == host.ActRun {
		def = defaultFee
	}
	return host.Fee(lookup, string(act), def)
}

// Deployment is an open Caisson.
type Deployment struct {
	Host *host.Host
	// Exec runs programs without HTTP and unbilled.
	Exec *exec.Interpreter

	lookup    func(string) (string, bool)
	reloading sync.Mutex
	file      config.File // what runs of it, guarded by reloading

	drain    func()
	warnings []string
	closers  []func(context.Context) error // in order of opening
}

// Drain ends what clients only listen to, and what waits for another request of theirs: what
// waits for requests to end calls it first.
func (d *Deployment) Drain() {
	d.Exec.Drain()
	if d.drain != nil {
		d.drain()
	}
}

// Warnings are what an operator should know about a deployment that starts.
func (d *Deployment) Warnings() []string { return d.warnings }

// Close ends what runs and gives everything back, within ctx and a few seconds.
// Call it once.
func (d *Deployment) Close(ctx context.Context) error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i](ctx))
	}
	return errors.Join(errs...)
}

// abandonTimeout bounds the closing of what a failed opening had opened.
const abandonTimeout = 10 * time.Second

func (d *Deployment) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	return d.Close(ctx)
}

// Serve opens a deployment that answers on router. On failure nothing is left
// running.
func Serve(ctx context.Context, o Options, router Router) (_ *Deployment, err error) {
	d := &Deployment{}
	o.reattach = true
	defer func() {
		if err != nil {
			err = errors.Join(err, d.abandon(ctx))
		}
	}()
	platform := host.Platform{Router: router, Billing: host.Free, Log: o.Log, Telemetry: o.Telemetry}
	var wallets admission.Wallets
	if o.File.Billing.Ledger == config.LedgerSQLite {
		l, err := ledger.Open(ctx, o.LedgerPath, ledger.Options{
			HoldTTL: time.Duration(o.File.Billing.HoldTTL), Log: o.Log.Named("ledger"),
		})
		if err != nil {
			return nil, err
		}
		d.closers = append(d.closers, func(context.Context) error { return l.Close() })
		platform.Billing, wallets = l, l
	}
	a, err := o.admission(d, wallets)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, func(context.Context) error { return a.Close() })
	platform.Admission = a
	store, err := OpenStore(ctx, o)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, func(context.Context) error { return store.Close() })
	if err := d.open(ctx, o, platform, o.sessions(store)); err != nil {
		return nil, err
	}
	if len(o.File.Policies) == 0 {
		d.warnings = append(d.warnings, "the chain of policies is empty: nothing judges requests")
	}
	if err := d.Host.Mount(ctx, d.Exec.Entry()); err != nil {
		return nil, err
	}
	if !o.File.MCP.Enabled {
		return d, nil
	}
	protocol, err := mcp.New(o.mcp(router))
	if err != nil {
		return nil, err
	}
	d.drain = protocol.Drain
	return d, d.Host.Mount(ctx, protocol.Entry())
}

// Local opens a deployment for this process alone: no routes, no ledger, keys
// and data directory of its own, the latter removed by Close.
func Local(ctx context.Context, o Options) (_ *Deployment, err error) {
	d := &Deployment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.abandon(ctx))
		}
	}()
	if o.DataDir, err = os.MkdirTemp("", "caisson-local-"); err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	d.closers = append(d.closers, func(context.Context) error { return os.RemoveAll(o.DataDir) })
	secret, err := identity.SecretFile(filepath.Join(o.DataDir, "secret"))
	if err != nil {
		return nil, err
	}
	if o.Keys, err = identity.NewKeys(secret); err != nil {
		return nil, err
	}
	return d, d.open(ctx, o, host.Platform{Billing: host.Free, Log: o.Log}, host.SessionOptions{})
}

// open opens host and entry.
func (d *Deployment) open(ctx context.Context, o Options, platform host.Platform, sessions host.SessionOptions) error {
	c, err := o.File.Host(o.LookupEnv)
	if err != nil {
		return err
	}
	trust, err := o.File.Trust()
	if err != nil {
		return err
	}
	d.lookup, d.file = o.LookupEnv, o.File
	d.Host, err = host.Open(ctx, host.Options{
		Platform: platform, Config: c,
		PluginDirs: o.PluginDirs, DataDir: o.DataDir, CacheDir: o.CacheDir,
		Keys: o.Keys, Deployment: o.File.Deployment, Node: o.File.Node, Reattach: o.reattach,
		Trust: trust, Sessions: sessions,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, d.Host.Close)
	d.Exec, err = exec.New(d.Host, o.exec())
	return err
}
