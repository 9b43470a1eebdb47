// Package remote is what the plugins of remote microVM providers have in common: a
// backend.Backend that finds, makes, wakes and ends sandboxes at a control plane
// (package control) and works in them over the data plane (package envd). A plugin
// adds what its provider does differently, as a Dialect.
//
// Sandboxes are owned by their metadata: the config that made one is stamped on it
// and looked at before anything is done to it, so that two configs of one account do
// not reach each other's. Only the control plane's own word about a sandbox, asked
// for by its id, proves that it is gone; a listing without it proves nothing.
//
// The package sweeps nothing and starts no goroutine that outlives a call.
package remote
