//go:build linux

// Package kernel is what the agent asks of Linux that Go's standard library does not
// offer: to act as somebody else, to give up capabilities, to end everything that runs
// as a user, and to know what the container may use.
//
// The agent is user 0 without the capabilities that make user 0 special to files. It
// never touches what programs own as user 0: it takes their user id for that
// (as the effective one, of one thread), so that nothing which a program arranges, by links,
// renames or races, leads it to anything that the program could not do itself.
package kernel
