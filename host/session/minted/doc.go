// Package minted keeps the sessions whose ids Caisson hands out: those of runs and
// uploads over HTTP. A session is a sandbox; there is no session table. The
// provider's listing is the truth, the sandbox's metadata says who owns it, and the
// id carries whom to ask.
//
// Where sandboxes can be named, that is all there is. The binding store is asked
// only where replicas have to agree: who replaces a session that vanished, who runs
// in one, who sweeps; and to find the sandboxes of providers that name them
// themselves.
//
// Sessions that an embedding program names are those of session.Manager.
package minted
