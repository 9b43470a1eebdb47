package guest

import (
	"crypto/rand"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"
)

// World is the system that an instance sees: mounts, streams, clocks and
// randomness. An instance may be made before it is known which run it will serve;
// its world is bound to the run when that comes. A world is used by one goroutine at
// a time and serves one run.
type World struct {
	// Walltime replaces the system's clock, for boots; nil is the system's.
	Walltime func() (sec int64, nsec int32)

	run    *Run
	layout *Layout
	mounts []*lateMount
}

// Layout is the tree of directories that worlds have in common: [DataDir], [TmpDir],
// [EntryDir] and libraries, in this order. An image fits only worlds of the layout
// that it was booted in.
type Layout struct {
	dirs    []string
	outside *outside
	library []LibraryMount
}

// NewLayout returns a layout with libraries.
func NewLayout(library ...LibraryMount) *Layout {
	return newLayout([]string{DataDir, TmpDir, EntryDir}, library)
}

func newLayout(dirs []string, library []LibraryMount) *Layout {
	return &Layout{dirs, newOutside(dirs), library}
}

// LibraryMount is a read-only file system of the engine's own.
type LibraryMount struct {
	Path string
	FS   fs.FS
}

// library opens for reading only. sysfs.AdaptFS does not look at the flags: the guest
// would be told when it writes, or never.
type library struct{ esys.FS }

func (l library) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	if flag&(esys.O_CREAT|esys.O_TRUNC|esys.O_WRONLY|esys.O_RDWR) != 0 {
		return nil, esys.EROFS
	}
	return l.FS.OpenFile(p, flag, perm)
}

// NewWorld returns a world that is not bound yet. Whatever a guest asks of it fails.
func NewWorld(l *Layout) *World {
	w := &World{layout: l}
	for range l.dirs {
		w.mounts = append(w.mounts, &lateMount{esys.UnimplementedFS{}})
	}
	return w
}

// Bind makes the world that of a run. A directory that the run does not have stays
// one in which nothing works.
func (w *World) Bind(r *Run) {
	w.run = r
	for i, dir := range w.layout.dirs {
		for _, m := range r.Mounts {
			if m.Path == dir {
				w.mounts[i].FS = m.FS
			}
		}
	}
}

// lateMount is a file system that becomes another when it is bound. wazero opens
// the directories of a new instance only when the guest first asks for them.
type lateMount struct{ esys.FS }

// ModuleConfig returns the configuration of an instance in this world: mounts,
// streams, arguments, environment, live clocks, the host's randomness, and no start
// function.
func (w *World) ModuleConfig(argv []string, env map[string]string) wazero.ModuleConfig {
	open := new(int)
	mounts := wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(controlled{looking{w.layout.outside, open}, w}, "/")
	for i, m := range w.mounts {
		mounts = mounts.(sysfs.FSConfig).WithSysFSMount(m, w.layout.dirs[i])
	}
	for _, m := range w.layout.library {
		mounts = mounts.(sysfs.FSConfig).WithSysFSMount(looking{library{&sysfs.AdaptFS{FS: m.FS}}, open}, m.Path)
	}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdin(worldStdin{w}).
		WithStdout(worldOutput{w, func(r *Run) io.Writer { return r.Stdout }}).
		WithStderr(worldOutput{w, func(r *Run) io.Writer { return r.Stderr }}).
		WithArgs(argv...).WithFSConfig(mounts).
		WithRandSource(rand.Reader).WithWalltime(w.walltime, sys.ClockResolution(time.Microsecond)).
		WithNanotime(w.nanotime, sys.ClockResolution(1))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cfg = cfg.WithEnv(k, env[k])
	}
	return cfg
}

func (w *World) walltime() (sec int64, nsec int32) {
	if w.Walltime != nil {
		return w.Walltime()
	}
	now := time.Now()
	return now.Unix(), int32(now.Nanosecond())
}

func (w *World) nanotime() int64 {
	if w.run == nil {
		return 1
	}
	return w.run.nanotime()
}

// worldStdin is the standard input of the world's run.
type worldStdin struct{ world *World }

func (s worldStdin) Read(p []byte) (int, error) {
	if s.world.run == nil {
		return 0, io.EOF
	}
	return s.world.run.Stdin.Read(p)
}

// worldOutput is a standard output of the world's run.
type worldOutput struct {
	world  *World
	stream func(*Run) io.Writer
}

func (o worldOutput) Write(p []byte) (int, error) {
	if o.world.run == nil {
		return len(p), nil
	}
	return o.stream(o.world.run).Write(p)
}
