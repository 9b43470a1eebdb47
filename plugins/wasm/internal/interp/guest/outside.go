package guest

import (
	"io/fs"
	"path"
	"strings"
	"testing/fstest"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
)

// outside is the guest's tree above and beside its mounts: directories that are
// there to be looked at. Programs ask whether "/mnt" exists and make "/mnt/data"
// "if it does not"; without anything at "/" both would fail.
type outside struct {
	esys.FS
	dirs fstest.MapFS
}

func newOutside(mounts []string) *outside {
	dirs := fstest.MapFS{}
	for _, m := range mounts {
		for p := strings.TrimPrefix(m, "/"); p != "."; p = path.Dir(p) {
			dirs[p] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: time.Unix(0, 0)}
		}
	}
	return &outside{FS: &sysfs.AdaptFS{FS: dirs}, dirs: dirs}
}

// Mkdir makes nothing: what is there exists, and the rest is read-only.
func (o *outside) Mkdir(p string, _ fs.FileMode) esys.Errno {
	if _, ok := o.dirs[path.Clean(strings.Trim(p, "/"))]; ok || p == "." || p == "" || p == "/" {
		return esys.EEXIST
	}
	return esys.EROFS
}

// The rest of what changes a file system is refused with a plain reason.

func (*outside) Chmod(string, fs.FileMode) esys.Errno    { return esys.EROFS }
func (*outside) Rename(string, string) esys.Errno        { return esys.EROFS }
func (*outside) Rmdir(string) esys.Errno                 { return esys.EROFS }
func (*outside) Unlink(string) esys.Errno                { return esys.EROFS }
func (*outside) Link(string, string) esys.Errno          { return esys.EROFS }
func (*outside) Symlink(string, string) esys.Errno       { return esys.EROFS }
func (*outside) Utimens(string, int64, int64) esys.Errno { return esys.EROFS }

// OpenFile opens directories, for reading only, and devices.
func (o *outside) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	if read, ok := devices[p]; ok && flag&esys.O_DIRECTORY == 0 {
		return &device{read: read}, 0
	}
	if flag&(esys.O_CREAT|esys.O_TRUNC|esys.O_WRONLY|esys.O_RDWR) != 0 {
		return nil, esys.EROFS
	}
	return o.FS.OpenFile(p, flag, perm)
}
