package changes

import (
	"io/fs"
	"syscall"
)

func inodeOf(info fs.FileInfo) (changed int64, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano(), st.Ino
	}
	return 0, 0
}
