// Package minted keeps the sessions whose ids Caisson hands out: those of runs and
// uploads over HTTP. A session is a sandbox; there is no session table. The
// provider's listing is the truth, the sandbox's metadata says who owns it, and the
// id carries whom to ask.
//
// Sessions that an embedding program names are those of session.Manager.
package minted
