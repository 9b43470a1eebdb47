package backendtest

import (
	_ "embed"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Probe is a program whose arguments are operations on the world it finds itself
// in, and how to run it. See probes/ for what it has to do.
type Probe struct {
	// File and Source are the program.
	File   string
	Source []byte
	// Argv runs it; "{dir}" stands for the program's directory.
	Argv []string
	// Exec runs the program from a command line of its own, without a program
	// directory; nil leaves the tests of Exec out.
	Exec []string
	// Env is added to the environment.
	Env map[string]string
	// Calls is how much the program can do with the control channel: NoCalls leaves
	// the tests of CapControl out.
	Calls Calls
}

// Calls is what a probe can do with the control channel of a run.
type Calls int

const (
	// NoCalls: nothing.
	NoCalls Calls = iota
	// CommandCalls: it calls by the command that CAISSON_CALL names.
	CommandCalls
	// ChannelCalls: it opens the channel by itself.
	ChannelCalls
)

//go:embed probes/probe.py
var pythonProbe string

//go:embed probes/probe.js
var javascriptProbe string

//go:embed probes/probe.sh
var shellProbe string

// Python is the probe for Python 3.8 and later, run by a command such as "python3".
func Python(command ...string) Probe {
	return Probe{
		File: "probe.py", Source: []byte(pythonProbe),
		Argv:  append(command, "{dir}/probe.py"),
		Exec:  append(append([]string{}, command...), "-c", pythonProbe),
		Calls: ChannelCalls,
	}
}

// JavaScript is the probe for node and what behaves like it. Where the control channel
// is a file it can do ChannelCalls, which the caller sets.
func JavaScript(command ...string) Probe {
	return Probe{
		File: "probe.js", Source: []byte(javascriptProbe),
		Argv: append(command, "{dir}/probe.js"),
		// With -e there is no script name among the arguments.
		Exec: append(append([]string{}, command...), "-e", "process.argv.splice(1, 0, 'probe');"+javascriptProbe, "--"),
	}
}

// Shell is the probe for a POSIX shell with the usual tools, such as "sh".
func Shell(command ...string) Probe {
	return Probe{
		File: "probe.sh", Source: []byte(shellProbe),
		Argv:  append(command, "{dir}/probe.sh"),
		Exec:  append(append([]string{}, command...), "-c", shellProbe, "probe"),
		Calls: CommandCalls,
	}
}

// runSpec is a run of the probe.
func (k *kit) runSpec(ref backend.Ref, ops ...string) backend.RunSpec {
	return backend.RunSpec{
		Ref: ref, RunID: k.session(), Env: k.Probe.Env,
		Program: backend.Program{File: k.Probe.File, Source: k.Probe.Source},
		Steps:   []backend.Step{{Name: "run", Argv: k.Probe.Argv, Args: ops}},
		Limits:  backend.Limits{Wall: k.Patience},
	}
}
