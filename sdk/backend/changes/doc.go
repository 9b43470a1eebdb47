// Package changes finds what a run changed in a directory tree: regular files
// made or altered, by content, and files gone.
//
// A Snapshot is taken before the program starts, after inputs were placed, and
// another when it has ended; Diff compares them. Content decides. Times, sizes
// and inode numbers only spare the reading of files that cannot have changed,
// and only where they can be believed: a file whose times are too close to the
// moment it was read may change again without its times moving, and is read
// again. Comparing times alone would miss same-second rewrites and report
// files that an archive unpacked with old times as old.
//
// It follows no links and reports none.
package changes
