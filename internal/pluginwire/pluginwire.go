// Package pluginwire is what a plugin process and its host have to agree on
// before the first call: the handshake and the environment. The protocol itself
// is in sdk/backend. It keeps go-plugin out of both exported APIs.
package pluginwire

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// ProtocolVersion is the only version of the backend protocol there is.
const ProtocolVersion = 1

// The cookie tells a plugin that a host started it. It is no secret.
const (
	cookieKey   = "CAISSON_PLUGIN"
	cookieValue = "backend"
)

// Environment of a plugin process, beside what go-plugin adds.
const (
	// EnvHostPID is the process that the plugin must not outlive.
	EnvHostPID = "CAISSON_PLUGIN_HOST_PID"
	// EnvKeep, in its place, is how long the plugin lives on without a connection, as
	// time.ParseDuration reads it: another host may adopt it.
	EnvKeep = "CAISSON_PLUGIN_KEEP"
	// EnvLogLevel is the level below which the host drops log lines.
	EnvLogLevel = "CAISSON_PLUGIN_LOG_LEVEL"
)

// Handshake is go-plugin's part of the agreement.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: ProtocolVersion, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue,
	}
}

// StartedByHost reports whether the cookie is set.
func StartedByHost(getenv func(string) string) bool { return getenv(cookieKey) == cookieValue }

// Name is under which the one connection of a plugin is dispensed.
const Name = "backend"

// Plugins is the set of that one.
func Plugins() plugin.PluginSet { return plugin.PluginSet{Name: connection{}} }

// connection dispenses the bare connection: both sides register and call the
// service themselves.
type connection struct{ plugin.NetRPCUnsupportedPlugin }

func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
