// Package sandboxes is the Docker backend: every sandbox is a container of its own.
//
// Package settings says what an operator allows, package engine speaks to the engine,
// package agentclient works in a container through the resident agent and package
// plain without it. What is here is the life of containers: how they are made and
// named, found again, woken, kept ready ahead of time, swept and ended.
//
// # Names and records
//
// A container is made under a name that says that it is nobody's yet. It becomes a
// sandbox by being renamed to the name of its session, the last step of Create: what
// was made half-way keeps the first name, and whoever made it, or finds its maker
// dead, removes it. Containers that wait to become a sandbox are in the same state.
//
// What a sandbox is, its record, is in a label of the container when that was made for
// its session. Labels never change, so the record of one that waited is a file in the
// container that only root can read or write, with the id of the container in it, and
// on this machine, which is faster; a program can forge neither. Listing the engine
// therefore finds every sandbox again.
package sandboxes
