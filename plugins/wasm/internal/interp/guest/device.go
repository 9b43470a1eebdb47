package guest

import (
	"crypto/rand"
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// devices are the files of /dev that there are, by path below the root. They can be
// opened and looked at, but are not listed. SQLite, in whatever language, seeds its
// random numbers from one; without it, programs that start within a second get the
// same.
var devices = map[string]func(p []byte) int{
	"dev/null":    func([]byte) int { return 0 },
	"dev/zero":    func(p []byte) int { clear(p); return len(p) },
	"dev/random":  random,
	"dev/urandom": random,
}

func random(p []byte) int {
	_, _ = rand.Read(p) // it never fails
	return len(p)
}

// offset is int64. The name keeps vet from taking Seek, whose results wazero's
// interface prescribes, for a failed io.Seeker.
type offset = int64

// device is an open file of devices. What is written to it is gone.
type device struct {
	esys.UnimplementedFile
	read func(p []byte) int
}

// maxDeviceRead bounds one read, which nothing can interrupt.
const maxDeviceRead = 1 << 20

func (d *device) Read(p []byte) (int, esys.Errno)           { return d.read(p[:min(len(p), maxDeviceRead)]), 0 }
func (d *device) Pread(p []byte, _ int64) (int, esys.Errno) { return d.Read(p) }
func (*device) Write(p []byte) (int, esys.Errno)            { return len(p), 0 }
func (*device) Pwrite(p []byte, _ int64) (int, esys.Errno)  { return len(p), 0 }
func (*device) Seek(offset, int) (int64, esys.Errno)        { return 0, 0 }
func (*device) IsDir() (bool, esys.Errno)                   { return false, 0 }
func (*device) SetAppend(bool) esys.Errno                   { return 0 }
func (*device) Truncate(int64) esys.Errno                   { return 0 }
func (*device) Stat() (sys.Stat_t, esys.Errno)              { return deviceStat(), 0 }

func deviceStat() sys.Stat_t {
	return sys.Stat_t{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, Nlink: 1}
}

// Stat looks at a device, or at what else is outside.
func (o *outside) Stat(p string) (sys.Stat_t, esys.Errno) {
	if _, ok := devices[p]; ok {
		return deviceStat(), 0
	}
	return o.FS.Stat(p)
}

// Lstat is Stat: nothing here is a link.
func (o *outside) Lstat(p string) (sys.Stat_t, esys.Errno) { return o.Stat(p) }
