package php

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"testing/fstest"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// Where the guest finds the library and source from the command line.
const (
	libraryDir = "/usr/lib/caisson"
	sourceDir  = "/usr/src"
	sourceName = "Command line code"
)

// settings are what the command line of PHP sets at its start, and on which side
// errors go: standard error, as distributions that are made for production have it.
var settings = []string{
	"display_errors=0",
	"log_errors=1",
	"html_errors=0",
	"implicit_flush=1",
	"output_buffering=0",
	"max_execution_time=0",
	"max_input_time=-1",
	"register_argc_argv=1",
	"variables_order=ES", // the build takes arguments for parts of a query
	"auto_prepend_file=" + libraryDir + "/prepend.php",
	// Functions that the file above replaces, and what would crash the build.
	"disable_functions=tempnam,tmpfile,exec,shell_exec,system,passthru,popen,mail,gethostbyname",
	"disable_classes=Fiber",
}

// commandLine turns the arguments of php into those of the build, and returns what
// has to be mounted for them. heapLimit is the default of memory_limit in bytes.
//
// All options of the build are passed on. Of those that only the command line of
// PHP has, -r is understood.
func commandLine(args []string, heapLimit int64) (argv []string, mounts []guest.LibraryMount, err error) {
	argv = []string{"php", "-q", "-C", "-d", "memory_limit=" + strconv.FormatInt(heapLimit, 10)}
	for _, s := range settings {
		argv = append(argv, "-d", s)
	}
	lib, err := fs.Sub(library, "lib")
	if err != nil {
		return nil, nil, err
	}
	mounts = append(mounts, guest.LibraryMount{Path: libraryDir, FS: lib})
	for i := 0; i < len(args) && len(args[i]) > 1 && args[i][0] == '-' && args[i] != "--"; i++ {
		switch {
		case args[i] == "-r" && i+1 < len(args):
			source := fstest.MapFS{sourceName: &fstest.MapFile{Data: []byte("<?php " + args[i+1]), Mode: 0o444}}
			mounts = append(mounts, guest.LibraryMount{Path: sourceDir, FS: source})
			rest := args[i+2:]
			if len(rest) > 0 && rest[0] == "--" {
				rest = rest[1:]
			}
			return slices.Concat(argv, args[:i], []string{sourceDir + "/" + sourceName}, rest), mounts, nil
		case args[i] == "-r":
			return nil, nil, fmt.Errorf("argument %d: -r: no code", i+1)
		case slices.Contains(valued, args[i]):
			i++
		}
	}
	return append(argv, args...), mounts, nil
}

// valued are the options that have a value in the next argument.
var valued = []string{"-d", "-c", "-f", "-z", "-T", "-b"}
