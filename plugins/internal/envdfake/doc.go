// Package envdfake stands in for sandboxes that run the envd daemon, for tests: a
// Machine really runs processes and really has files, and answers as the daemon does,
// down to its codes and oddities; a Gateway leads to machines by host name.
//
// It isolates nothing. A machine is a mount namespace of this one, with directories of
// its own at /mnt, /tmp, /home and /root; programs run as whoever runs the test.
//
// What no client should send, such as a request for a route that does not exist, or a
// field that is none, is answered as the daemon would and is recorded as a violation,
// which fails the test.
package envdfake
