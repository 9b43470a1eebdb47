package clang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// Where tools find what a command makes on the way.
const (
	buildDir = "/build"
	outDir   = "/out"
	outName  = "program"
)

// stackBytes is the size of a program's C stack, that of common native systems.
const stackBytes = 8 << 20

// compile carries out the command line of a compiler. What the compiler and the
// linker say goes to standard error, and whatever they refuse is exit code 1.
func (t *tools) compile(ctx context.Context, r *guest.Run) (guest.Result, error) {
	argv := r.Program.Argv
	c := command{tools: t, run: r, ctx: ctx, name: path.Base(argv[0]), fuel: toolFuel, began: time.Now()}
	if limit := r.Program.FuelLimit; limit > 0 {
		c.fuel = min(c.fuel, limit)
	}
	r.Begin()
	if len(argv) == 2 && argv[1] == "--version" {
		_, _ = io.WriteString(r.Stdout, "clang version 8.0.1 (tags/RELEASE_801/final)\nTarget: wasm32-unknown-wasi\n")
		return c.end(), nil
	}
	j, err := parse(argv, guest.DataDir)
	if err != nil {
		c.fail(err)
		return c.end(), nil
	}
	if err := c.build(j); err != nil {
		return guest.Result{}, err
	}
	return c.end(), nil
}

// command is a compiler's command line that is carried out.
type command struct {
	*tools
	ctx   context.Context
	run   *guest.Run
	name  string
	fuel  int64 // that is left
	began time.Time
	total guest.Result
}

// end completes the outcome.
func (c *command) end() guest.Result {
	if c.total.Reason == "" {
		c.total.Reason = guest.ReasonExit
	}
	c.total.WallTime = time.Since(c.began)
	return c.total
}

// fail ends the command with what the driver has to say.
func (c *command) fail(err error) {
	say(c.run.Stderr, "%s: error: %v", c.name, err)
	c.total.Code = 1
}

// build compiles and links, and writes the program. An error is the host's fault.
func (c *command) build(j *job) error {
	var names []string
	objects := map[string][]byte{}
	for i, in := range j.inputs {
		object, err := c.object(j, in)
		if err != nil || object == nil {
			return err
		}
		name := fmt.Sprintf("%d-%s.o", i, path.Base(in.path))
		names, objects[name] = append(names, name), object
	}
	program, err := c.link(j, names, objects)
	if err != nil || program == nil {
		return err
	}
	if err := writeProgram(c.run, j.output, program); err != nil {
		c.fail(fmt.Errorf("unable to open output file '%s': %w", j.output, err))
	}
	return nil
}

// object compiles one source; nil means that the command is over.
func (c *command) object(j *job, in input) ([]byte, error) {
	if in.language == "c++" && j.plain {
		if flags, headers := c.headersFor(c.run, j, in.path); headers != nil {
			object, stale, err := c.frontend(j, in, flags, headers)
			if !stale {
				return object, err
			}
		}
	}
	object, _, err := c.frontend(j, in, nil, nil)
	return object, err
}

// staleHeader is what the compiler says of precompiled headers that it cannot use.
const staleHeader = "PCH file"

// frontend runs the compiler. stale tells that it refused the precompiled headers.
func (c *command) frontend(j *job, in input, extra []string, headers *tree) (object []byte, stale bool, err error) {
	argv := append(compiler(in.language), j.flags...)
	argv = append(argv, extra...)
	argv = append(argv, "-main-file-name", path.Base(in.path), "-emit-obj", "-o", "-", "-x", in.language, in.path)
	mounts := append(sources(c.run), mount{sysrootDir, c.sysroot})
	if headers != nil {
		mounts = append(mounts, mount{headersMount, headers})
	}
	out, msgs := &sink{max: maxObject}, &sink{max: maxMessages}
	ok, err := c.tool(&invocation{module: c.clang, argv: argv, mounts: mounts, out: out, msgs: msgs})
	if headers != nil && c.total.Reason == guest.ReasonExit && c.total.Code != 0 && bytes.Contains(msgs.content, []byte(staleHeader)) {
		c.total.Code = 0
		return nil, true, err
	}
	_, _ = c.run.Stderr.Write(msgs.content)
	if err != nil || !ok {
		return nil, false, err
	}
	if out.full {
		c.fail(fmt.Errorf("'%s' has more than %d MiB of code and global variables; allocate large arrays with malloc", in.path, maxObject>>20))
		return nil, false, nil
	}
	return out.content, false, nil
}

// compiler is the part of the compiler's command line that is always the same.
func compiler(language string) []string {
	argv := []string{
		"clang", "-cc1", "-triple", "wasm32-unknown-wasi", "-disable-free", "-mthread-model", "single", "-mrelocation-model", "static",
		"-fuse-init-array", "-fno-common", "-ferror-limit", "19", "-fmessage-length", "0", "-fdiagnostics-show-option",
		"-isysroot", sysrootDir, "-resource-dir", resourceDir,
	}
	if language == "c++" {
		argv = append(argv, "-D", "_GNU_SOURCE", "-fdeprecated-macro", "-internal-isystem", sysrootDir+"/"+cppHeadersDir)
	}
	return append(argv, "-internal-isystem", sysrootDir+"/"+headersDir, "-internal-isystem", resourceDir+"/include")
}

// link runs the linker; nil means that the command is over.
func (c *command) link(j *job, names []string, objects map[string][]byte) ([]byte, error) {
	argv := []string{
		"wasm-ld", "--no-threads", "--stack-first", "-z", fmt.Sprintf("stack-size=%d", stackBytes), "-s",
		"-o", outDir + "/" + outName, "-L" + librariesDir, buildDir + "/" + startObject,
	}
	for _, name := range names {
		argv = append(argv, buildDir+"/"+name)
	}
	for _, lib := range j.libs {
		if lib == "stdc++" {
			lib = "c++"
		}
		if lib == "c++" && j.cpp || lib == "gcc" || lib == "gcc_s" {
			continue // it is linked in any case
		}
		if !c.sysroot.has("lib/wasm32-wasi/lib" + lib + ".a") {
			c.fail(fmt.Errorf("there is no library '%s' here", lib))
			return nil, nil
		}
		argv = append(argv, "-l"+lib)
	}
	objects[startObject] = c.parts[startObject]
	if j.cpp {
		objects[cppObject] = c.parts[cppObject]
		argv = append(argv, buildDir+"/"+cppObject, "-lc++", "-lc++abi")
	}
	argv = append(argv, "-lc-printscan-long-double", "-lc", builtins)
	out, msgs := &sink{name: outName, max: maxModule}, &sink{max: maxMessages}
	mounts := []mount{{sysrootDir, c.sysroot}, {buildDir, newTree(2, objects)}, {outDir, out}}
	ok, err := c.tool(&invocation{module: c.linker, argv: argv, mounts: mounts, msgs: msgs})
	_, _ = c.run.Stderr.Write(msgs.content)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		if c.total.Reason == guest.ReasonExit {
			c.fail(errors.New("linker command failed with exit code 1 (use -v to see invocation)"))
		}
		return nil, nil
	case out.full:
		c.fail(fmt.Errorf("the program has more than %d MiB of code and global variables", maxModule>>20))
		return nil, nil
	}
	return out.content, nil
}

// tool runs a tool within what is left of the command's fuel, and says whether the
// command goes on.
func (c *command) tool(v *invocation) (ok bool, err error) {
	v.fuel = c.fuel
	res, err := v.run(c.ctx, c.run)
	if err != nil {
		return false, err
	}
	add(&c.total, res)
	c.fuel = max(1, c.fuel-res.Fuel)
	limit := c.run.Program.FuelLimit
	switch {
	case res.Reason == guest.ReasonExit && res.Code == 0:
		return true, nil
	case res.Reason == guest.ReasonCPU && (limit <= 0 || c.total.Fuel < limit):
		c.own("the program takes too long to compile")
	case res.Reason == guest.ReasonMemory:
		c.own(fmt.Sprintf("the program takes more than %d MiB to compile", toolMemory>>20))
	case res.Reason == guest.ReasonExit && res.Err != nil:
		c.own("the compiler crashed")
	case res.Reason == guest.ReasonExit:
		c.total.Code = 1
	}
	return false, nil
}

// own makes the toolchain's own limit an error of the command, since it is none of
// the program's.
func (c *command) own(message string) {
	c.total.Reason, c.total.Err = guest.ReasonExit, nil
	c.fail(errors.New(message))
}
