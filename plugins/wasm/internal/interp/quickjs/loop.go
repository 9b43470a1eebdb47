package quickjs

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// start is what lib/bootstrap.js gets to know about the run.
type start struct {
	Argv       []string    `json:"argv"` // node's process.argv
	Env        [][2]string `json:"env"`
	Cwd        string      `json:"cwd"`
	EntryDir   string      `json:"entryDir"`
	Mounts     []string    `json:"mounts"`
	Source     *string     `json:"source"`     // of -e, instead of a file
	TypeScript bool        `json:"typescript"` // whatever the entry's name
	Memory     int64       `json:"memory"`
}

// program runs the whole program and returns its exit code. The library ends
// programs that fail or call process.exit, in which case this panics.
func (v *vm) program() int {
	s, usage := v.commandLine()
	if usage != "" {
		_, _ = v.run.Stderr.Write([]byte(usage))
		return 9
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(abort{err})
	}
	v.attempt("start", v.newString(string(raw)))
	v.attempt("runMain")
	v.loop()
	val, err := v.hook("exiting")
	if err != nil {
		v.uncaught(err)
		return 1
	}
	defer v.free(val)
	return int(v.number(val)) & 0xff
}

// commandLine reads Argv like node: -e SOURCE or FILE, then arguments.
func (v *vm) commandLine() (s start, usage string) {
	argv := v.run.Program.Argv
	s = start{
		Argv: []string{"/usr/local/bin/node"}, Cwd: v.run.Env["PWD"], EntryDir: guest.EntryDir,
		TypeScript: argv[0] == TypeScript, Memory: guest.MemoryLimit(v.run.Program),
	}
	for _, k := range slices.Sorted(maps.Keys(v.run.Env)) {
		s.Env = append(s.Env, [2]string{k, v.run.Env[k]})
	}
	for _, m := range v.run.Mounts {
		s.Mounts = append(s.Mounts, m.Path)
	}
	rest := argv[1:]
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		switch rest[0] {
		case "-e", "--eval":
			if len(rest) < 2 {
				return s, "node: " + rest[0] + " requires an argument\n"
			}
			s.Source = &rest[1]
			rest = rest[2:]
			if len(rest) > 0 && rest[0] == "--" { // ends the options, as in node
				rest = rest[1:]
			}
			s.Argv = append(s.Argv, rest...)
			return s, ""
		case "--":
			rest = rest[1:]
		case "--experimental-strip-types", "--no-warnings", "--enable-source-maps":
			rest = rest[1:]
			continue
		default:
			return s, "node: bad option: " + rest[0] + "\n"
		}
		break
	}
	if len(rest) == 0 {
		return s, "node: no entry file\n"
	}
	s.Argv = append(s.Argv, rest...)
	return s, ""
}

// attempt calls a hook and reports what it throws as an uncaught exception.
func (v *vm) attempt(name string, args ...uint64) {
	val, err := v.hook(name, args...)
	if err != nil {
		v.uncaught(err)
		return
	}
	v.free(val)
}

// uncaught hands an exception to the library, which lets the program's own
// handlers see it, or prints it and ends the program.
func (v *vm) uncaught(err error) {
	var je *jsError
	if !errors.As(err, &je) {
		panic(abort{err})
	}
	defer v.free(je.value)
	val, err := v.hook("uncaught", v.call("qjs_dup_value", je.value))
	if err == nil {
		v.free(val)
		return
	}
	// The library itself failed, for instance for lack of memory or stack.
	_, _ = v.run.Stderr.Write([]byte("Uncaught " + v.text(je.value) + "\n"))
	panic(sys.NewExitError(1))
}

// loop runs the program's jobs and timers until there are none.
func (v *vm) loop() {
	for {
		v.settle()
		// The hook runs one thing that is due and returns 0, or returns the
		// milliseconds until something is, or a negative number.
		val, err := v.hook("turn")
		if err != nil {
			v.uncaught(err)
			continue
		}
		wait := v.number(val)
		v.free(val)
		if wait < 0 {
			return
		}
		if wait > 0 {
			const forever = 24 * 365 * time.Hour
			guest.MustSleep(v.ctx, time.Duration(min(wait*float64(time.Millisecond), float64(forever))))
		}
	}
}

// settle runs ticks and promise jobs until there are none, then deals with
// promises that were rejected and have no handler.
func (v *vm) settle() {
	for {
		v.attempt("ticks")
		if v.jobs() {
			continue
		}
		if len(v.rejected) == 0 {
			return
		}
		r := v.rejected[0]
		v.rejected = v.rejected[1:]
		v.attempt("unhandled", r.reason, r.promise)
	}
}

// jobs runs promise jobs until there are none and tells whether there were any.
func (v *vm) jobs() (ran bool) {
	for {
		r := int32(uint32(v.call("qjs_execute_pending_job")))
		if r == 0 {
			return ran
		}
		if r < 0 {
			v.uncaught(v.pending())
		}
		ran = true
	}
}

// pending takes the exception that a call left.
func (v *vm) pending() error { return &jsError{v.call("qjs_get_exception")} }
