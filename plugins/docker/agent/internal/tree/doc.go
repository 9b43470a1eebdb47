//go:build linux

// Package tree is what the agent does with files, on behalf of the host, beside
// programs that own them and may change everything at any moment.
//
// Everything is done as the session's user, which can do nothing to files that its
// programs cannot do; and where something belongs to another of the user ids that
// programs have and is closed to the session, it is opened up as that user. No link is
// followed at any component: paths are walked by descriptors, one name at a time.
package tree
