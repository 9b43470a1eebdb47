// Package store keeps the sandboxes of the embedded backend as directories.
//
//	sessions/CONFIG/ID/record.json   who it belongs to; written once
//	sessions/CONFIG/ID/active        its time is the last activity
//	sessions/CONFIG/ID/index.json    digests of data; a cache
//	sessions/CONFIG/ID/data/         what programs see as /mnt/data
//	work/RANDOM/                     staging and run directories of one process
//	trash/                           what is being deleted
//
// A sandbox appears and disappears by one rename, so that a crash leaves either
// all of it or nothing, and everything survives a restart of the process. What
// guests and callers name inside data is resolved through os.Root handles on
// data itself, never on anything above it.
//
// The package runs nothing and knows no languages.
package store
