//go:build linux

// Package serve answers the plugin's requests. It listens on unix sockets in private
// directories, speaks agentwire with whoever may connect, and carries requests out with
// packages tree and work.
package serve
