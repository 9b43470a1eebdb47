// Package mcp offers the code interpreter to clients of the Model Context Protocol: over
// streamable HTTP, as an entry beside that of plugins/exec, and over standard streams.
//
// A tool is a call of the HTTP interface by its generated client. Over HTTP it goes to the
// program's own router with the headers of the request that brought it, so that there
// is one admission, one set of policies, limits and prices, and no second way to
// anything. This package keeps no file, knows no tenant beyond which sessions of the
// protocol are whose, and decides nothing about runs.
package mcp
