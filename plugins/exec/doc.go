// Package exec is the code interpreter's wire: the metered entry that answers
// POST /v1/exec, moves files in and out of the session that a sandbox is, and
// speaks the shapes that every client generation accepts.
//
// It composes what the host has. Sessions are the host's, sandboxes the
// backends', ids are derived, and no table is kept here that could disagree with
// any of them. What is decided here is what only the wire knows: how a request
// is read, which session a run continues, what a reply says, and when a run is
// charged: reserved before anything is leased, debited once when the program
// started, given back otherwise.
//
// Interpreter.Run and Interpreter.End are the same thing without HTTP and
// without money, for subsystems of the embedding program that run code and
// charge for it themselves.
//
// It is not a server and no identity provider: the embedding program owns the
// router and says who asks.
package exec
