package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

// ControlPath is the control file of a run that may make calls (package control). Each
// time it is opened gives a connection. A read that has nothing to read waits in the
// host, which costs no fuel, and the run gives up its place among those that compute.
const ControlPath = "/" + controlName

// ControlCommand is the command of scripts that makes one call.
const ControlCommand = "caisson-call"

// controlName is ControlPath from the root.
const controlName = "dev/caisson-control"

// controlled is a file system that has the control file of the world's run in it.
type controlled struct {
	esys.FS
	world *World
}

// run returns the world's run if it may make calls.
func (c controlled) run() *Run {
	if r := c.world.run; r != nil && r.Program.Control != nil {
		return r
	}
	return nil
}

// OpenFile opens the control file, or what else there is.
func (c controlled) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	if p == controlName {
		if r := c.run(); r != nil {
			f, errno := r.openControl(flag)
			if errno != 0 {
				return nil, errno
			}
			r.opened = f
			return f, 0
		}
	}
	return c.FS.OpenFile(p, flag, perm)
}

// Stat looks at the control file, or at what else there is.
func (c controlled) Stat(p string) (sys.Stat_t, esys.Errno) {
	if r := c.run(); r != nil && p == controlName {
		return r.StatControl()
	}
	return c.FS.Stat(p)
}

// Lstat is Stat: nothing here is a link.
func (c controlled) Lstat(p string) (sys.Stat_t, esys.Errno) { return c.Stat(p) }

// OpenControl opens the control file of the run for interpreters whose files are not
// those of WASI. ENOENT: the run makes no calls.
func (r *Run) OpenControl(flag esys.Oflag) (esys.File, esys.Errno) {
	if r.Program.Control == nil {
		return nil, esys.ENOENT
	}
	f, errno := r.openControl(flag)
	if errno != 0 {
		return nil, errno
	}
	return f, 0
}

// StatControl is OpenControl for whoever only looks.
func (r *Run) StatControl() (sys.Stat_t, esys.Errno) {
	if r.Program.Control == nil {
		return sys.Stat_t{}, esys.ENOENT
	}
	return deviceStat(), 0
}

func (r *Run) openControl(flag esys.Oflag) (*controlFile, esys.Errno) {
	switch {
	case flag&esys.O_DIRECTORY != 0:
		return nil, esys.ENOTDIR
	case flag&esys.O_EXCL != 0 && flag&esys.O_CREAT != 0:
		return nil, esys.EEXIST
	}
	conn, err := r.Program.Control.Dial()
	if err != nil {
		return nil, esys.EAGAIN // there are too many
	}
	return &controlFile{run: r, conn: conn, nonblock: flag&esys.O_NONBLOCK != 0}, 0
}

// controlFile is an open control file. It can be read and written whatever it was
// opened for: whoever only writes must be able to close it without waiting.
type controlFile struct {
	esys.UnimplementedFile
	run      *Run
	conn     *control.Conn
	nonblock bool
}

// Read waits until there is something to read.
func (f *controlFile) Read(p []byte) (n int, errno esys.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	f.wait(func() bool {
		var err error
		n, err = f.conn.TryRead(p)
		if n == 0 && err == nil && f.nonblock {
			errno = esys.EAGAIN
			return true
		}
		return n > 0 || errors.Is(err, io.EOF)
	})
	return n, errno
}

// Write waits until all is taken over, for the answers of others if need be.
func (f *controlFile) Write(p []byte) (n int, errno esys.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	f.wait(func() bool {
		m, err := f.conn.TryWrite(p[n:])
		n += m
		switch {
		case err != nil && n == 0:
			errno = esys.EIO
			return true
		case err != nil, n == len(p):
			return true
		case f.nonblock:
			if n == 0 {
				errno = esys.EAGAIN
			}
			return true
		}
		return false
	})
	return n, errno
}

// wait tries until it is done. It ends the guest when its run is over.
func (f *controlFile) wait(done func() bool) {
	for {
		_, changed := f.run.Program.Control.Suspended()
		if done() {
			return
		}
		f.run.aside(func(ctx context.Context) bool {
			select {
			case <-changed:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}
}

func (f *controlFile) Close() esys.Errno {
	_ = f.conn.Close()
	return 0
}

func (*controlFile) Stat() (sys.Stat_t, esys.Errno) { return deviceStat(), 0 }
func (*controlFile) IsDir() (bool, esys.Errno)      { return false, 0 }
func (*controlFile) SetAppend(bool) esys.Errno      { return 0 }
func (*controlFile) Truncate(int64) esys.Errno      { return 0 }
func (f *controlFile) Seek(offset, int) (int64, esys.Errno) {
	f.run.errno = wasiNoSeek
	return 0, esys.EIO
}

// aside waits without the run's place; wait tells false when ctx ended. It ends the
// guest when its run is over.
func (r *Run) aside(wait func(ctx context.Context) bool) {
	r.Rise()
	if !wait(r.ctx) || r.Sit(r.ctx) != nil {
		interrupt()
	}
}

// Rise gives up the run's place if the run has it, or its seat on the bench. It is for
// whoever uses the Run.
func (r *Run) Rise() {
	r.stand()
	if r.seated {
		r.seated = false
		r.Program.Place.Leave()
	}
}

// Seated reports whether it has it.
func (r *Run) Seated() bool { return r.seated || r.Program.Place == nil }

// Sit waits for the place if the run does not have it. The error is that ctx ended.
func (r *Run) Sit(ctx context.Context) error {
	r.stand()
	if r.seated || r.Program.Place == nil {
		return nil
	}
	if err := r.Program.Place.Enter(ctx); err != nil {
		return err
	}
	r.seated = true
	return nil
}

// suspended reports whether calls of the run are open.
func (r *Run) suspended() bool {
	if r == nil || r.Program.Control == nil {
		return false
	}
	open, _ := r.Program.Control.Suspended()
	return open
}

// beside counts what was computed since it was last called, if calls are open. It ends a
// guest that computes too much beside them, and has one that computes long wait for its
// turn.
func (r *Run) beside() {
	b := r.Program.Beside
	if b == nil {
		return
	}
	used := r.used()
	units := used - r.counted
	r.counted = used
	switch {
	case !r.suspended():
		if r.benched && r.Sit(r.ctx) != nil {
			interrupt()
		}
	case !b.add(units):
		interrupt()
	case r.Program.Bench != nil && b.Used() > Fuel(besideGrace):
		if r.Bench(r.ctx) != nil {
			interrupt()
		}
	}
}
