// Package machine makes the instances that programs run in: one for each run, used
// once and thrown away.
//
// # Images
//
// A language's interpreter is booted once, up to the point where it would look at
// its program. What is then in its memory and its globals is the image, and every
// run starts from a copy of that. Two things make it sound: nothing of an instance's
// state is elsewhere (but for the table, which the interpreters do not change), and
// the world of an instance ([guest.World]) has the same directories in the same
// order as at the boot. The host's random numbers and clocks are asked for anew by
// each instance; what an interpreter has drawn from them at the boot it has to draw
// again, or it is the same in all instances, like the seed of Python's string
// hashes.
//
// The image is kept in the cache directory under a name that stands for everything
// that made it: the module and how it was metered, the version of wazero, the
// processor, and what the interpreter names as [Config.Identity]. It carries a digest
// of its own. On any doubt it is made anew, and a cache that cannot be used costs
// time and never a failure.
//
// # Parked instances
//
// Making an instance and filling its memory takes longer than many programs do. So
// some wait, made and filled, and are only bound to their run when it comes. No
// goroutine belongs to them. The machine's one goroutine makes more when some were
// taken, cleans the memory that was given back, and gives up most of both when
// nothing was run for a while.
//
// Memory comes from a [region.Pool], which sees to it that nothing of an earlier
// guest is left in it.
package machine
