package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// shell runs scripts in one sandbox. It is safe for concurrent use.
type shell struct {
	world    *world
	programs *programs
	engine   []string // names of what programs runs
}

func newShell(c *client, p *programs, job wire.Job) *shell {
	s := &shell{programs: p, engine: job.Programs}
	s.world = &world{client: c, command: s.isCommand, names: s.commandNames}
	return s
}

// shells are the names that mean this shell.
var shells = []string{"bash", "sh", "dash"}

// isCommand tells whether name is a command outside of the shell's language.
func (s *shell) isCommand(name string) bool {
	_, ok := coreutils.Lookup(name)
	return ok || slices.Contains(s.engine, name) || slices.Contains(shells, name) || slices.Contains(likeBuiltins, name)
}

func (s *shell) commandNames() []string {
	names := slices.Concat(coreutils.Names(), s.engine, shells, likeBuiltins)
	slices.Sort(names)
	return slices.Compact(names)
}

// main runs the command line of a job.
func (s *shell) main(ctx context.Context, job wire.Job, stdin, stdout, stderr *os.File) int {
	env := map[string]string{}
	for _, kv := range job.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	env["SHLVL"], env["_"] = "1", "/usr/bin/bash"
	dir := "/mnt/data"
	if d := env["PWD"]; path.IsAbs(d) {
		dir = path.Clean(d)
	}
	return s.bash(ctx, &coreutils.Call{
		Argv: job.Argv, Dir: dir, Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr,
		FS: s.world, Run: s.run, Has: s.has,
	})
}

// has tells where a command seems to be, empty if there is none.
func (s *shell) has(name string) string {
	if s.isCommand(name) {
		return binDirs[0] + "/" + name
	}
	return ""
}

// bash runs the command line of a shell: options, then a file or -c and a text,
// then arguments.
func (s *shell) bash(ctx context.Context, c *coreutils.Call) int {
	args := c.Argv[1:]
	var set []string
	command, stdin := false, false
options:
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--", arg == "-":
			args = args[1:]
			break options
		case arg == "--norc", arg == "--noprofile", arg == "--posix", arg == "--login":
		case len(arg) < 2 || arg[0] != '-' && arg[0] != '+':
			break options
		case strings.HasPrefix(arg, "--"):
			fmt.Fprintf(c.Stderr, "bash: %s: invalid option\n", arg)
			return 2
		default:
			for i, letter := range arg[1:] {
				switch letter {
				case 'c':
					command = arg[0] == '-'
				case 's':
					stdin = true
				case 'l', 'i', 'B', 'h', 'm', 'p':
				case 'o', 'O':
					if len(args) < 2 || i != len(arg)-2 {
						fmt.Fprintf(c.Stderr, "bash: %s: option requires an argument\n", arg)
						return 2
					}
					if letter == 'o' {
						set = append(set, arg[:1]+"o", args[1])
					}
					args = args[1:]
				case 'e', 'u', 'x', 'f', 'n', 'a', 'v':
					set = append(set, arg[:1]+string(letter))
				default:
					fmt.Fprintf(c.Stderr, "bash: -%c: invalid option\n", letter)
					return 2
				}
			}
		}
		args = args[1:]
	}
	set = slices.DeleteFunc(set, func(o string) bool { return o == "-v" || o == "+v" })
	sc := script{name: "bash", set: set}
	switch {
	case command && len(args) == 0:
		fmt.Fprintln(c.Stderr, "bash: -c: option requires an argument")
		return 2
	case command:
		sc.source, args = args[0], args[1:]
		if len(args) > 0 {
			sc.name, args = args[0], args[1:]
		}
	case stdin || len(args) == 0:
		b, err := io.ReadAll(c.Stdin)
		if err != nil {
			fmt.Fprintln(c.Stderr, "bash:", err)
			return 1
		}
		sc.source = string(b)
	default:
		b, err := s.readScript(c, args[0])
		if err != nil {
			fmt.Fprintf(c.Stderr, "bash: %s: %s\n", args[0], plain(err))
			return 127
		}
		sc.source, sc.name, args = string(b), args[0], args[1:]
	}
	sc.args = args
	return s.script(ctx, c, sc)
}

// script is the source of a shell of its own, with $0, $1 and so on, and options
// for set.
type script struct {
	source, name string
	args, set    []string
}

func (s *shell) readScript(c *coreutils.Call, name string) ([]byte, error) {
	if !path.IsAbs(name) {
		name = c.Dir + "/" + name
	}
	f, err := s.world.open(path.Clean(name), 0, 0, streams{in: c.Stdin})
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// script runs a script in a new shell and returns its exit code.
func (s *shell) script(ctx context.Context, c *coreutils.Call, sc script) int {
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	file, err := parser.Parse(strings.NewReader(rewrite(sc.source)), sc.name)
	if err != nil {
		// What comes before the error runs in other shells, line by line;
		// here nothing does.
		fmt.Fprintf(c.Stderr, "bash: %v\n", err)
		return 2
	}
	r, err := s.runner(c, sc)
	if err != nil {
		fmt.Fprintf(c.Stderr, "bash: %v\n", err)
		return 2
	}
	if err := s.prepare(ctx, r, c.Env); err != nil {
		fmt.Fprintf(c.Stderr, "bash: %v\n", err)
		return 2
	}
	return exitCode(c.Stderr, r.Run(ctx, file))
}

// exitCode takes the exit code out of what Run returned.
func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	if !errors.Is(err, context.Canceled) {
		fmt.Fprintf(stderr, "bash: %v\n", err)
	}
	return 1
}

// runner makes an interpreter whose every way to the outside is ours.
func (s *shell) runner(c *coreutils.Call, sc script) (*interp.Runner, error) {
	params := append(slices.Clone(sc.set), "--")
	h := &handlers{shell: s}
	return interp.New(
		interp.Env(environ{vars: startVars(c.Env, sc.name)}),
		interp.StdIO(c.Stdin, c.Stdout, c.Stderr),
		interp.Params(append(params, sc.args...)...),
		interp.OpenHandler(h.open),
		interp.StatHandler(h.stat),
		interp.AccessHandler(h.access),
		interp.ReadDirHandler2(h.readDir),
		interp.CallHandler(h.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return h.exec }),
		inDir(c.Dir),
	)
}

// inDir sets the working directory without looking for it on the host.
func inDir(dir string) interp.RunnerOption {
	return func(r *interp.Runner) error {
		r.Dir = dir
		return nil
	}
}

// prepare sets what the environment at the start must not have: named pipes are
// made in the TMPDIR of the start, which is not the script's.
func (s *shell) prepare(ctx context.Context, r *interp.Runner, env map[string]string) error {
	text := "unset TMPDIR"
	if tmp, ok := env["TMPDIR"]; ok {
		q, err := syntax.Quote(tmp, syntax.LangBash)
		if err != nil {
			return err
		}
		text = "export TMPDIR=" + q
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return err
	}
	return r.Run(ctx, file.Stmts[0])
}

// environ are the variables a shell starts with.
type environ struct{ vars map[string]expand.Variable }

// Get finds a variable. The shell asks for "HOME name" when it expands ~name, and
// looks in the host's list of users otherwise: here it stays as it is.
func (e environ) Get(name string) expand.Variable {
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return expand.Variable{Set: true, Kind: expand.String, Str: "~" + user}
	}
	now := ""
	switch name {
	case "EPOCHSECONDS":
		now = strconv.FormatInt(time.Now().Unix(), 10)
	case "EPOCHREALTIME":
		now = fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
	case "BASHPID":
		now = strconv.Itoa(os.Getpid())
	default:
		return e.vars[name]
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: now}
}

func (e environ) Each(f func(string, expand.Variable) bool) {
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		if !f(name, e.vars[name]) {
			return
		}
	}
}

// startVars adds the shell's own variables to the environment.
func startVars(env map[string]string, name string) map[string]expand.Variable {
	vars := map[string]expand.Variable{}
	for k, v := range map[string]string{
		"BASH": "/usr/bin/bash", "BASH_VERSION": "5.2.0(1)-release", "HOSTNAME": "sandbox", "HOSTTYPE": "x86_64",
		"OSTYPE": "linux-gnu", "MACHTYPE": "x86_64-pc-linux-gnu", "UID": "1000", "EUID": "1000", "GID": "1000",
		"BASH_SOURCE": name, "PS4": "+ ",
	} {
		vars[k] = expand.Variable{Set: true, Kind: expand.String, Str: v}
	}
	vars["BASH_VERSINFO"] = expand.Variable{Set: true, Kind: expand.Indexed, List: []string{"5", "2", "0", "1", "release", "x86_64-pc-linux-gnu"}}
	for k, v := range env {
		if syntax.ValidName(k) && k != "UID" && k != "EUID" && k != "GID" {
			vars[k] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: v}
		}
	}
	vars["TMPDIR"] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: pipesDir}
	return vars
}

// environment is the exported environment as a list.
func environment(c *coreutils.Call) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		list = append(list, k+"="+c.Env[k])
	}
	return list
}
