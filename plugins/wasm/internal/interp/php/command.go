package php

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// libraryDir is where the guest finds the library; envCode has the source that is
// given on the command line.
const (
	libraryDir = "/usr/lib/caisson"
	envCode    = "CAISSON_CODE"
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

// commandLine turns the arguments of php into those of the build, and returns its
// environment. heapLimit is the default of memory_limit in bytes.
//
// All options of the build are passed on. Of those that only the command line of
// PHP has, -r is understood.
func commandLine(r *guest.Run, heapLimit int64) (argv []string, env map[string]string, err error) {
	args := r.Program.Argv[1:]
	argv = []string{"php", "-q", "-C", "-d", "memory_limit=" + strconv.FormatInt(heapLimit, 10)}
	for _, s := range settings {
		argv = append(argv, "-d", s)
	}
	for i := 0; i < len(args) && len(args[i]) > 1 && args[i][0] == '-' && args[i] != "--"; i++ {
		switch {
		case args[i] == "-r" && i+1 < len(args):
			env := maps.Clone(r.Env)
			env[envCode] = args[i+1]
			rest := args[i+2:]
			if len(rest) > 0 && rest[0] == "--" {
				rest = rest[1:]
			}
			return slices.Concat(argv, args[:i], []string{libraryDir + "/code.php"}, rest), env, nil
		case args[i] == "-r":
			return nil, nil, fmt.Errorf("argument %d: -r: no code", i+1)
		case slices.Contains(valued, args[i]):
			i++
		}
	}
	return append(argv, args...), r.Env, nil
}

// valued are the options that have a value in the next argument.
var valued = []string{"-d", "-c", "-f", "-z", "-T", "-b"}
