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
	for _, p := range []*int{&o.Sessions, &o.AllSessions, &o.TenantSessions, &o.Requests, &o.AllRequests, &o.TenantRequests, &o.OutputBytes} {
		if *p < 0 {
			return o, errors.New("mcp: a limit is negative")
		}
	}
	if min(o.Idle, o.BodyTime, o.Stall) < 0 || min(o.BodyBytes, o.BodyMemoryBytes) < 0 {
		return o, errors.New("mcp: a limit is negative")
	}
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, "/:@ ") && net.ParseIP(h) == nil {
			return o, fmt.Errorf("mcp: host %q: must be a name or address without scheme and port", h)
		}
	}
	def(&o.Base, "/v1/exec")
	def(&o.Sessions, 16)
	def(&o.AllSessions, 1000)
	def(&o.TenantSessions, max(1, o.AllSessions/2))
	def(&o.Idle, 30*time.Minute)
	def(&o.Requests, 16)
	def(&o.AllRequests, 256)
	def(&o.TenantRequests, max(1, o.AllRequests/2))
	def(&o.BodyBytes, 16<<20)
	def(&o.BodyTime, time.Minute)
	def(&o.BodyMemoryBytes, machine.Memory()/8)
	def(&o.Stall, 30*time.Second)
	def(&o.OutputBytes, defaultOutput)
	def(&o.Version, "dev")
	return o, nil
}

const defaultOutput = 64 << 10

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
