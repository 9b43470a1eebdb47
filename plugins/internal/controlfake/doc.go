// Package controlfake is the control plane of E2B or of CubeSandbox, and the gateway
// before its sandboxes, for tests and for trying things by hand: sandboxes with
// states, timeouts and tokens, listings in pages, snapshots and templates, over what a
// Launcher runs as the daemon of each sandbox.
//
// It is stricter than the providers. What no contract allows (an unknown route, no
// key, another content type, a member that does not exist) is not only refused but
// reported, so that a client that works here says nothing that a real server merely
// ignores. Quirks are switches, and faults are scripted.
package controlfake
