package guest

import (
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// What one call may ask of the host. wazero takes any number: it copies a path of
// half a gigabyte before anybody looks at it, walks through millions of empty
// vectors without a look at the clock, and makes room for every descriptor below
// the one that a guest gives to another, gigabytes of it.
const (
	maxPath       = 4096
	maxVectors    = 1024
	maxDescriptor = 4095
	// maxLooking is how many directories above the mounts, and files of libraries, a
	// guest may have open. Those in the mounts are bounded by their quotas.
	maxLooking = 256
)

// WASI error numbers of what is beyond the bounds.
const (
	wasiBadFD       = 8
	wasiNameTooLong = 37
)

// vectors has the functions that take a list of buffers, whose length is the third
// parameter.
var vectors = map[string]bool{"fd_read": true, "fd_write": true, "fd_pread": true, "fd_pwrite": true}

// beyond returns the error number of a call that asks too much, 0 for any other.
func (h hostCall) beyond(params []uint64) uint16 {
	for _, i := range h.charge.paths {
		if uint32(params[i]) > maxPath {
			return wasiNameTooLong
		}
	}
	switch {
	case h.vectors && uint32(params[2]) > maxVectors:
		return wasiInval
	case h.renumbers && uint32(params[1]) > maxDescriptor:
		return wasiBadFD
	}
	return 0
}

// spoil makes a call fail before it does anything: no descriptor and no address is
// as high.
func spoil(params []uint64) {
	for i := range params {
		params[i] = noDescriptor
	}
}

// looking bounds how much of a file system that costs nothing a guest has open.
type looking struct {
	esys.FS
	open *int // of all in one world; a guest has one thread
}

// OpenFile opens within the bound.
func (l looking) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	if *l.open >= maxLooking {
		return nil, esys.EAGAIN
	}
	f, errno := l.FS.OpenFile(p, flag, perm)
	if errno != 0 {
		return nil, errno
	}
	*l.open++
	return &looked{File: f, open: l.open}, 0
}

// looked is a file that counts until it is closed.
type looked struct {
	esys.File
	open *int
}

func (f *looked) Close() esys.Errno {
	if f.open != nil {
		*f.open--
		f.open = nil
	}
	return f.File.Close()
}
