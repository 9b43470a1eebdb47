//go:build unix && !linux

package rootfs

import (
	"os"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"
)

// futimens sets the times of an open file, in microseconds.
func futimens(f *os.File, atim, mtim int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now := sys.NewStat_t(info)
	if atim == esys.UTIME_OMIT {
		atim = now.Atim
	}
	if mtim == esys.UTIME_OMIT {
		mtim = now.Mtim
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = conn.Control(func(fd uintptr) {
		opErr = unix.Futimes(int(fd), []unix.Timeval{unix.NsecToTimeval(atim), unix.NsecToTimeval(mtim)})
	})
	if err == nil {
		err = opErr
	}
	return err
}
