// Package store keeps the sandboxes of the embedded backend as directories.
//
//	sessions/CONFIG/ID/record.json   who it belongs to; its time is the last activity
//	sessions/CONFIG/ID/index.json    digests of data; a cache
//	sessions/CONFIG/ID/data/         what programs see as /mnt/data
//	snapshots/CONFIG/ID/             a record.json and data/ as they were
//	work/RANDOM/                     staging and scratch directories of one process
//	trash/                           what is being deleted
//	damaged/                         sandboxes whose record cannot be read, for people
//
// A sandbox, and a snapshot, appears and disappears by one rename, so that a crash
// leaves either all of it or nothing, and everything survives a restart of the
// process. What guests and callers name inside data is resolved through os.Root
// handles on data itself, never on anything above it.
//
// Several processes may share a directory while one replaces the other. A process
// holds a shared lock on the directory of each sandbox that it is using; who wants
// to end an idle sandbox takes the exclusive lock first, and does without when it
// cannot have it. Nothing is locked on behalf of sandboxes that nobody uses, nor
// kept in memory for them, but for the few used last.
//
// Nothing is flushed to the disk: the kernel keeps what a killed process wrote. A
// machine that loses its power may lose the sandboxes of the last seconds, and a
// record that it left empty goes to damaged.
//
// The package runs nothing and knows no languages.
package store
