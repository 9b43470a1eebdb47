package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// storeTimeout bounds the questions to a session store.
const storeTimeout = 10 * time.Second

// checkSessions asks the session store how it is. A file that the running server
// holds is left to it.
func (a *app) checkSessions(ctx context.Context, r *report, s settings, log hclog.Logger) binding.Report {
	const name = "session store"
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if s.Sessions.Store == config.StoreSQLite {
		known := binding.Report{Kind: config.StoreSQLite, Durable: true}
		path := filepath.Join(s.Data, deployment.StoreFile)
		_, held, err := datadir.Holder(s.Data)
		if err != nil || held {
			r.add(name, fine, "", "sqlite, %s, held by the running server", path)
			return known
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			r.add(name, fine, "", "sqlite, %s, made by the first serve", path)
			return known
		}
	}
	if v, _ := a.LookupEnv(datadir.SecretVariable); s.Sessions.Store == config.StoreRedis && strings.TrimSpace(v) == "" {
		r.add("deployment secret", problem, "set "+datadir.SecretVariable+" to the same 16 or more random bytes on every replica",
			"replicas that share a session store need the same secret, and %s is not set", datadir.SecretVariable)
	}
	store, err := deployment.OpenStore(ctx, deployment.Options{File: s.File, DataDir: s.Data, LookupEnv: a.LookupEnv, Log: log})
	if err != nil {
		r.add(name, problem, "mend sessions.store, or what it names", "%s: %v", s.Sessions.Store, err)
		return binding.Report{}
	}
	defer store.Close()
	report, err := store.Check(ctx)
	if err != nil {
		r.add(name, problem, "see that the server runs and lets us in", "%s: %v", s.Sessions.Store, err)
		return binding.Report{}
	}
	detail := report.Kind
	if report.Server != "" {
		detail += ", " + report.Server
	}
	if report.Shared {
		detail += ", shared by replicas"
	}
	if !report.Durable {
		detail += ", forgets when it restarts: sandboxes are then found again by asking the backends"
	}
	r.add(name, fine, "", "%s", detail)
	for _, w := range report.Warnings {
		r.add(name, note, "", "%s", w)
	}
	return report
}

// checkReach compares what a backend's sandboxes need with what the store does for
// them.
func (s settings) checkReach(ctx context.Context, r *report, h *host.Host, id string, store binding.Report) {
	t, err := h.Target(ctx, id)
	if err != nil {
		return // said elsewhere
	}
	defer t.Release()
	s.compareReach(r, id, t.Info, store)
}

func (s settings) compareReach(r *report, id string, info backend.Info, store binding.Report) {
	if info.Has(backend.CapTokenOnce) && !store.Durable {
		r.add("session store", note, "choose sessions.store: sqlite, or a Redis with appendonly",
			"backend %s tells the token of a sandbox only once, and bindings are not kept: where the plugin's own files are lost with them, such sandboxes cannot be entered (kind authentication) until they end", id)
	}
	if store.Shared && !info.Has(backend.CapShared) && len(s.Peers) == 0 {
		r.add("session store", problem, "set node and peers, or give every replica a store of its own",
			"the sandboxes of backend %s live on one machine, and replicas share the session store", id)
	}
}
