// Package interp runs programs in WebAssembly builds of language interpreters,
// each program in a fresh instance that is never used again.
//
// It is the engine below the embedded backend and knows nothing of sessions,
// tenants or the wire. The backend hands it directories as [os.Root] handles,
// byte quotas, writers and a context; it gets back a [Result].
//
// # Use
//
//	set := packs.Locate(dir)       // verified interpreter files
//	eng, err := interp.New(interp.Config{Packs: set, CacheDir: cacheDir, TypeScript: helper})
//	defer eng.Close(ctx)
//	eng.Languages()                                // what is offered, and why the rest is not
//	eng.Warm(ctx)                                  // optional: compile the core now, not at the first run
//	res, err := eng.Run(ctx, interp.Program{
//		Argv:   []string{"python3", "/run/caisson/main.py", "arg 1"},
//		Stdout: out, Stderr: errs,
//		Data:   interp.Mount{Root: data, Quota: quota},
//		Tmp:    interp.Mount{Root: tmp},
//		Entry:  entry,
//	})
//
// An error means that the program did not start: nothing of it ran, nothing is
// to be billed. Once it started (Program.Started was called), every ending is a
// Result with a typed Reason, and err is nil.
//
// # The guest's world
//
// The guest sees Program.Data at /mnt/data (its working directory and HOME),
// Program.Tmp at /tmp, and Program.Entry, read-only, at /run/caisson. It has no
// network, no processes, no threads and none of the host's environment.
//
// # Limits
//
// The context's deadline is the wall-clock limit and its cancellation the kill;
// both are noticed inside endless loops, bulk operations, sleeps and blocked reads
// of stdin. Program.FuelLimit bounds the work, in units that are the same on any
// machine, and Result.Fuel counts it; see package guest. The memory limit is
// refused growth of the linear memory, which the language turns into its own
// out-of-memory error.
//
// # Languages
//
// Package cpython runs Python, package quickjs JavaScript and TypeScript for
// node. Both boot their interpreter once and start runs from an image of that,
// with randomness and clocks of their own. TypeScript is compiled by helper
// processes; see package typescript. Package php runs PHP, which boots for each
// run.
package interp
