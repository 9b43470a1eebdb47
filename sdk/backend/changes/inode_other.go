//go:build !linux

package changes

import "io/fs"

func inodeOf(fs.FileInfo) (changed int64, inode uint64) { return 0, 0 }
