// Package host loads plugins and gives them to entries: backends that run code,
// policies that judge requests, tables that know languages. It owns what must
// never vary between plugins: identity, sessions, limits and the hooks of the
// platform it is embedded in.
//
// It is not a server: Open returns a Host, entries (plugins/exec) register their
// routes with the platform's router, and the platform serves.
package host
