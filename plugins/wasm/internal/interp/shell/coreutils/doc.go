// Package coreutils has the commands that scripts expect to find beside a
// shell: cat, ls, grep, sed, sort, tar, jq and so on, in Go.
//
// They see the world through a [Call] only: its streams, its environment, and a
// file system given as an interface. None of them opens a file of the host,
// starts a process or uses the network. They follow the GNU commands in what
// they print and how they exit, for the options they know; an option they do not
// know is an error, never ignored.
package coreutils
