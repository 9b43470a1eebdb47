package cpython

import (
	"fmt"
	"io/fs"
	"slices"
	"testing/fstest"
)

// Tool is a command that is a Python program of the engine's own. The program is in
// the snapshot.
type Tool struct {
	// Command is its name, Program.Argv[0].
	Command string
	// Module has a function main that is given the arguments and returns the exit code.
	Module string
	// Files has the module and others that it imports, at its root.
	Files fs.FS
}

// tool finds the tool that a command line names, nil if it names none.
func (p *Interpreter) tool(argv []string) *Tool {
	i := slices.IndexFunc(p.tools, func(t Tool) bool { return t.Command == argv[0] })
	if i < 0 {
		return nil
	}
	return &p.tools[i]
}

// program is the source that runs the tool.
func (t *Tool) program() []byte {
	return fmt.Appendf(nil, "import sys, %[1]s\nsys.exit(%[1]s.main(sys.argv[1:]))\n", t.Module)
}

// commandLine is what python3 is called with where there is no snapshot.
func (p *Interpreter) commandLine(argv []string) []string {
	t := p.tool(argv)
	if t == nil {
		return argv
	}
	return append([]string{"python3", "-c", fmt.Sprintf("import sys; sys.path.insert(0, %q)\n%s", libraryDir, t.program())}, argv[1:]...)
}

// bootCommand loads the tools and the runner; the library's directory has been taken
// off the path by then. A tool for which the build lacks a module fails when it is
// run, and Python itself does not.
func bootCommand(tools []Tool) string {
	load := fmt.Sprintf("import sys; sys.path.insert(0, %q)\n", libraryDir)
	for _, t := range tools {
		load += "try:\n    import " + t.Module + "\nexcept ImportError:\n    pass\n"
	}
	return load + "import _caisson_runner; _caisson_runner.boot()"
}

// library is what the guest finds in libraryDir.
func library(tools []Tool) (fstest.MapFS, error) {
	out := fstest.MapFS{}
	own, err := fs.Sub(libraryFiles, "lib")
	if err != nil {
		return nil, err
	}
	sources := []fs.FS{own}
	for _, t := range tools {
		sources = append(sources, t.Files)
	}
	for _, source := range sources {
		names, err := fs.Glob(source, "*.py")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := fs.ReadFile(source, name)
			if err != nil {
				return nil, err
			}
			out[name] = &fstest.MapFile{Data: b, Mode: 0o444}
		}
	}
	return out, nil
}
