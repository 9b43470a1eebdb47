package mcp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/internal/machine"
	"github.com/caisson-run/caisson/plugins/exec/internal/options"
)

// Path is where the protocol is answered.
const Path = "/mcp"

// Options of New. Handler is required; zero members take the default that their comment
// names.
type Options struct {
	// Handler answers what tools ask for: the router that plugins/exec is mounted on.
	Handler http.Handler
	// Base is the prefix below which plugins/exec answers there: /v1/exec.
	Base string
	// Hosts are names under which the server is called, without a port. With any, a
	// request for another host is refused; without, only what comes over the loopback
	// device is looked at, and has to be for a loopback name.
	Hosts []string
	// Sessions bounds the protocol's sessions of each caller, AllSessions those of
	// everybody, TenantSessions those of one organisation: 16, 1000, and half of all.
	Sessions, AllSessions, TenantSessions int
	// Idle is how long a session lasts without a request: 30 minutes.
	Idle time.Duration
	// Requests bounds the requests and tool calls under way of each caller, AllRequests
	// the requests of everybody, TenantRequests those of one organisation: 16, 256, and half
	// of all.
	Requests, AllRequests, TenantRequests int
	// BodyBytes bounds one request: 16 MiB. BodyTime is how long it may take to
	// arrive: one minute.
	BodyBytes int64
	BodyTime  time.Duration
	// BodyMemoryBytes bounds the memory of all requests that are read and answered at once,
	// half of it those of each organisation: an eighth of what the machine has. A request
	// counts for 24 times its bytes, the first 32 KiB for nothing. One of the largest has
	// room in any case.
	BodyMemoryBytes int64
	// Stall is how long a reader of an answer may take for 64 KiB before it is
	// given up: 30 seconds.
	Stall time.Duration
	// OutputBytes bounds each text that a tool hands back: 64 KiB.
	OutputBytes int
	// Version is the server's own, told to clients: "dev".
	Version string
	// Telemetry counts requests; nil counts none.
	Telemetry *telemetry.Telemetry
}

func (o Options) complete() (Options, error) {
	if o.Handler == nil {
		return o, errors.New("mcp: no handler")
	}
	if err := options.NoneNegative(o); err != nil {
		return o, fmt.Errorf("mcp: %w", err)
	}
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, "/:@ ") && net.ParseIP(h) == nil {
			return o, fmt.Errorf("mcp: host %q: must be a name or address without scheme and port", h)
		}
	}
	options.Default(&o.Base, "/v1/exec")
	options.Default(&o.Sessions, 16)
	options.Default(&o.AllSessions, 1000)
	options.Default(&o.TenantSessions, max(1, o.AllSessions/2))
	options.Default(&o.Idle, 30*time.Minute)
	options.Default(&o.Requests, 16)
	options.Default(&o.AllRequests, 256)
	options.Default(&o.TenantRequests, max(1, o.AllRequests/2))
	options.Default(&o.BodyBytes, 16<<20)
	options.Default(&o.BodyTime, time.Minute)
	options.Default(&o.BodyMemoryBytes, machine.Memory()/8)
	options.Default(&o.Stall, 30*time.Second)
	options.Default(&o.OutputBytes, defaultOutput)
	options.Default(&o.Version, "dev")
	return o, nil
}

const defaultOutput = 64 << 10
