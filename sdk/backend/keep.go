package backend

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/caisson-run/caisson/internal/pluginwire"
)

// attendance counts the connections of hosts, for a plugin that may outlive its
// host: nobody else tells it whether it has one.
type attendance struct{ hosts atomic.Int64 }

var _ stats.Handler = (*attendance)(nil)

func (a *attendance) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		a.hosts.Add(1)
	case *stats.ConnEnd:
		a.hosts.Add(-1)
	}
}

func (a *attendance) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (a *attendance) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (a *attendance) HandleRPC(context.Context, stats.RPCStats)                       {}

// keptTime is how long this plugin may live without a host; zero means not at all.
func keptTime() (time.Duration, error) {
	text := os.Getenv(pluginwire.EnvKeep)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New(pluginwire.EnvKeep + " is not positive")
	}
	return d, err
}

const (
	// attendanceInterval is how often a plugin looks whether it has a host.
	attendanceInterval = 250 * time.Millisecond
	// unattendedLog is how much a plugin may log that nobody reads.
	unattendedLog = 4 << 20
)

// stopUnattended ends the serving when there was no host for that long.
func (a *attendance) stopUnattended(ctx context.Context, limit time.Duration, log hclog.Logger, s *grpc.Server) {
	tick := time.NewTicker(attendanceInterval)
	defer tick.Stop()
	seen := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		switch {
		case a.hosts.Load() > 0:
			seen = time.Now()
		case time.Since(seen) >= limit:
			log.Warn("no host has come, exiting", "after", limit.String())
			drain(s)
			return
		default:
			boundLog(os.Stderr)
		}
	}
}

// boundLog empties a log that grows while nobody reads it. Pipes are left alone.
func boundLog(f *os.File) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && occupied(info) > unattendedLog {
		_ = f.Truncate(0)
	}
}
