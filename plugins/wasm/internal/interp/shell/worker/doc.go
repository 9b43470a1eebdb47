// Package worker is the process in which one script runs. Package shell starts
// it and says what it is for; see there for why.
//
// The process limits itself before it learns what to run, and can then open
// nothing but named pipes in one empty directory, connect to nothing and start
// nothing. What a script sees as files is what the other side of the socket
// makes of them (client), with devices and the names of commands added (world).
package worker
