package deployment

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/binding/redis"
	"github.com/caisson-run/caisson/host/session/binding/sqlite"
)

// StoreFile is the session store of sessions.store: sqlite, in the data directory.
const StoreFile = "sessions.db"

// sessions is how the server keeps sessions. Which sessions exist beside those of
// runs only an embedding platform could say.
func (o Options) sessions(store *binding.Store) host.SessionOptions {
	peers := make(map[string]string, len(o.File.Peers))
	for _, p := range o.File.Peers {
		peers[p.Node] = p.URL
	}
	return host.SessionOptions{
		Peers: peers, Store: store, Grace: time.Duration(o.File.Sessions.Grace),
		LeaseFee: func() int64 { return Fee(o.LookupEnv, host.ActLease) },
	}
}

// OpenStore opens the session store that the file chooses. A Redis is not asked
// before the store is used.
func OpenStore(ctx context.Context, o Options) (*binding.Store, error) {
	so := binding.Options{Log: o.Log.Named("bindings")}
	switch s := o.File.Sessions; s.Store {
	case config.StoreSQLite:
		return sqlite.New(ctx, filepath.Join(o.DataDir, StoreFile), so)
	case config.StoreRedis:
		text, err := s.Redis.Read(o.LookupEnv)
		if err != nil {
			return nil, fmt.Errorf("sessions.redis: %w", err)
		}
		ro, err := redis.ParseURL(text)
		if err != nil {
			return nil, fmt.Errorf("sessions.redis: %w", err)
		}
		if ro.Namespace == "" && o.File.Deployment != config.Default().Deployment {
			// Deployments that share a server keep out of each other's way.
			ro.Namespace = redis.DefaultNamespace + "." + o.File.Deployment
		}
		ro.Store = so
		redis.Silence() // what it would say comes back as errors
		return redis.New(ro)
	default:
		return binding.New(memory.NewEngine(memory.Options{}), so)
	}
}
