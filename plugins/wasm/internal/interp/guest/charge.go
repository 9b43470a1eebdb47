package guest

import "github.com/tetratelabs/wazero/api"

// What the host does for a guest is charged by amounts that depend on the call
// alone, so that fuel stays deterministic. They are what the work takes on a
// common machine, so that a program cannot get the host to work for little.
const (
	// CallUnits is the price of any call.
	CallUnits = 1_000
	// pathUnits is the price of a path besides, and nameUnits that of each name in
	// it: every component is opened for itself.
	pathUnits = 15_000
	nameUnits = 15_000
	// TransferUnits is the price of a read, a write or a listing besides.
	TransferUnits = 6_000
	// listedUnits is the price of each byte of a listing, where an entry has 24 bytes
	// and its name, and the host looks at each.
	listedUnits = 100
	// eventUnits is the price of each subscription of a poll.
	eventUnits = 300
	// ByteUnits is the price of each byte that is copied.
	ByteUnits = 1
)

// PathUnits is the price of a call that takes a path.
func PathUnits[T string | []byte](path T) int64 {
	names := int64(1)
	for i := range len(path) {
		if path[i] == '/' {
			names++
		}
	}
	return pathUnits + nameUnits*names + ByteUnits*int64(len(path))
}

// charge says what a WASI function costs. The numbers are indexes of parameters;
// 0 is none, since no function has any of them first but where noted.
type charge struct {
	// paths are lengths of paths; the pointer is the parameter before.
	paths []int
	// done is where the function writes how many bytes it has copied, and each the
	// price of one if it is not ByteUnits.
	done int
	each int64
	// bytes is the number of bytes it copies, events that of subscriptions.
	bytes, events int
}

// charges has the WASI functions whose price is not CallUnits alone.
var charges = map[string]charge{
	"fd_read":                 {done: 3},
	"fd_write":                {done: 3},
	"fd_pread":                {done: 4},
	"fd_pwrite":               {done: 4},
	"fd_readdir":              {done: 4, each: listedUnits},
	"random_get":              {bytes: 1},
	"poll_oneoff":             {events: 2},
	"path_create_directory":   {paths: []int{2}},
	"path_filestat_get":       {paths: []int{3}},
	"path_filestat_set_times": {paths: []int{3}},
	"path_link":               {paths: []int{3, 6}},
	"path_open":               {paths: []int{3}},
	"path_readlink":           {paths: []int{2}},
	"path_remove_directory":   {paths: []int{2}},
	"path_rename":             {paths: []int{2, 5}},
	"path_symlink":            {paths: []int{1, 4}},
	"path_unlink_file":        {paths: []int{2}},
}

// before is the price of a call by its parameters.
func (c charge) before(mem api.Memory, params []uint64) int64 {
	units := int64(CallUnits)
	for _, i := range c.paths {
		path, _ := mem.Read(uint32(params[i-1]), uint32(params[i]))
		units += PathUnits(path)
	}
	if c.done > 0 {
		units += TransferUnits
	}
	if c.bytes > 0 {
		units += ByteUnits * int64(uint32(params[c.bytes]))
	}
	if c.events > 0 {
		units += eventUnits * int64(uint32(params[c.events]))
	}
	return units
}
