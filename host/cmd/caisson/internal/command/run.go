package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/artifacts"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/urfave/cli/v3"
)

const (
	// localOrg owns the one session of `run`.
	localOrg = "local"
	// maxSource is the default bound of a request body, which a program would
	// have to fit in.
	maxSource = 16 << 20
	// exitTimeout and exitInterrupted are what shells use.
	exitTimeout     = 124
	exitKilled      = 137
	exitInterrupted = 130
)

func (a *app) runCommand() *cli.Command {
	stop := 1 // what follows FILE belongs to the program
	return &cli.Command{
		Name:      "run",
		Usage:     "run one program as a request would, and save the files that it makes",
		ArgsUsage: "FILE [ARGUMENT...]",
		Description: "FILE is the program, or - for standard input. It runs in a new sandbox of this\n" +
			"process: no server is needed or disturbed. Its output is printed as it was, its exit\n" +
			"code becomes that of this command (124 for a run out of time), and changed files are\n" +
			"saved; hidden ones only where --out is given. Of the data directory only its cache\n" +
			"is used; without --data and a data directory, one of the user's.",
		Flags: commonFlags(append([]cli.Flag{
			&cli.StringFlag{Name: "lang", Usage: "the `LANGUAGE` (default: what the extension of FILE says)"},
			&cli.StringSliceFlag{Name: "file", Usage: "put a copy of `PATH` beside the program, as NAME with PATH=NAME; may be repeated"},
			&cli.StringFlag{Name: "out", Usage: "save changed files in `DIR`", Value: "."},
			&cli.BoolFlag{Name: "force", Usage: "replace files that exist"},
			&cli.DurationFlag{Name: "timeout", Usage: "stop the program after `DURATION` (default and maximum: see doctor)"},
		}, logFlags("error")...)...),
		StopOnNthArg: &stop,
		Action:       a.run,
	}
}

// extensions name languages by file extension where the extension is not
// itself an id or alias of the language.
var extensions = map[string]string{
	"mjs": "js", "cjs": "js", "mts": "ts", "cc": "cpp", "cxx": "cpp", "f95": "f90", "f03": "f90", "pyw": "py",
}

// languageOf is the language of a program by flag or file name.
func languageOf(flag, file string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))
	if file == "-" || ext == "" {
		return "", errors.New("the language is not known: name it with --lang")
	}
	if id, ok := extensions[ext]; ok {
		return id, nil
	}
	return ext, nil
}

func (a *app) run(ctx context.Context, cmd *cli.Command) error {
	file := cmd.Args().First()
	if file == "" {
		return usagef(cmd, "no FILE given")
	}
	lang, err := languageOf(cmd.String("lang"), file)
	if err != nil {
		return usagef(cmd, "%w", err)
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	code, err := a.source(file)
	if err != nil {
		return err
	}
	inputs, err := inputFiles(cmd.StringSlice("file"))
	if err != nil {
		return usagef(cmd, "%w", err)
	}
	ctx, _, release := a.signals(ctx, log)
	defer release()
	d, err := deployment.Local(ctx, deployment.Options{
		File: s.File, CacheDir: s.cacheDir(true), PluginDirs: s.pluginDirs, LookupEnv: a.LookupEnv, Log: log,
	})
	if err != nil {
		return err
	}
	r := runner{app: a, d: d, ctx: ctx, backend: s.DefaultBackend, out: cmd.String("out"), chosen: cmd.IsSet("out"), force: cmd.Bool("force")}
	exit, err := r.run(&exec.CodeRun{
		Lang: lang, Code: code, Args: cmd.Args().Tail(), Timeout: cmd.Duration("timeout").Milliseconds(),
	}, inputs)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := errors.Join(err, d.Close(closing)); err != nil {
		return err
	}
	return exit
}

// source reads the program.
func (a *app) source(file string) (string, error) {
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSource+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the program: %w", err)
	case len(b) > maxSource:
		return "", fmt.Errorf("%s: a program may have at most %s", file, sizeText(maxSource))
	case len(b) == 0:
		return "", fmt.Errorf("%s: the program is empty", file)
	}
	return string(b), nil
}

// input is a file to put beside the program.
type input struct{ path, name string }

func inputFiles(flags []string) ([]input, error) {
	var out []input
	for _, f := range flags {
		in := input{path: f, name: filepath.Base(f)}
		if p, name, ok := strings.Cut(f, "="); ok {
			in = input{path: p, name: path.Clean(name)}
		}
		if _, err := filepath.Localize(in.name); err != nil || in.name == "." {
			return nil, fmt.Errorf("--file %q: %q is no name for a file beside the program", f, in.name)
		}
		out = append(out, in)
	}
	return out, nil
}

// runner carries out one run and what belongs around it.
type runner struct {
	*app
	d   *deployment.Deployment
	ctx context.Context
	// backend is the id of the default one.
	backend string
	out     string
	// chosen says that the user named out: whatever the program made may go there.
	chosen bool
	force  bool
}

// run returns how the program ended, as an exitCode or nil, and in err what
// kept it from running or its files from being saved.
func (r *runner) run(in *exec.CodeRun, inputs []input) (exit, err error) {
	if err := awaitHost(r.ctx, r.d.Host, r.backend); err != nil {
		return nil, fmt.Errorf("nothing can be run now: %w; see caisson doctor", err)
	}
	if len(inputs) > 0 {
		if in.SessionID, err = r.place(inputs); err != nil {
			return nil, err
		}
		defer r.end(in.SessionID, &err)
	}
	var res *exec.CodeResult
	err = retried(r.ctx, r.Stderr, func() (err error) {
		res, err = r.d.Exec.Run(r.ctx, localOrg, in)
		return err
	})
	if err != nil {
		if r.ctx.Err() != nil {
			return exitCode(exitInterrupted), nil
		}
		return nil, err
	}
	if res.SessionID != in.SessionID {
		defer r.end(res.SessionID, &err)
	}
	_, outErr := io.WriteString(r.Stdout, res.Stdout)
	_, errErr := io.WriteString(r.Stderr, res.Stderr)
	return r.exit(res), errors.Join(outErr, errErr, r.save(res))
}

// end drops the session; its files are saved or lost by now.
func (r *runner) end(session string, err *error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closeTimeout)
	defer cancel()
	*err = errors.Join(*err, r.d.Exec.End(ctx, localOrg, session))
}

// exit is the exit code that the program's end stands for.
func (r *runner) exit(res *exec.CodeResult) error {
	switch {
	case r.ctx.Err() != nil:
		return exitCode(exitInterrupted)
	case res.Status != nil && *res.Status == "TO":
		return exitCode(exitTimeout)
	case res.Code == nil:
		return exitCode(exitKilled)
	case *res.Code != 0:
		return exitCode(*res.Code)
	default:
		return nil
	}
}

// place makes a session and puts inputs into it.
func (r *runner) place(inputs []input) (string, error) {
	owner := session.Owner{Tenant: localOrg}
	sessions := r.d.Host.Sessions()
	t, err := sessions.Default(r.ctx, owner)
	if err != nil {
		return "", err
	}
	x, err := sessions.Create(r.ctx, owner, t, session.CreateOptions{Origin: session.OriginExec})
	if err != nil {
		t.Release()
		return "", err
	}
	defer x.Release()
	for _, in := range inputs {
		if err := r.placeOne(x, in); err != nil {
			return "", errors.Join(fmt.Errorf("input %s: %w", in.path, err), x.Backend.Delete(context.WithoutCancel(r.ctx), x.Sandbox.Ref))
		}
	}
	return x.ID, nil
}

func (r *runner) placeOne(x session.Session, in input) error {
	f, err := os.Open(in.path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = x.Backend.WriteFile(r.ctx, x.Sandbox.Ref, path.Join(backend.DataDir, in.name), backend.WriteOptions{}, f)
	return err
}

// save copies the changed files of the run to r.out and names them on stderr.
// One that cannot be saved does not keep the others from it.
func (r *runner) save(res *exec.CodeResult) error {
	changed := slices.DeleteFunc(slices.Clone(res.Files), func(f exec.CodeFile) bool { return f.Inherited })
	var errs []error
	if n := res.ArtifactDelivery; n != nil {
		errs = append(errs, fmt.Errorf("%d of %d changed files are too many or too large to save", n.Failed, n.Attempted))
	}
	if len(changed) == 0 || r.ctx.Err() != nil {
		return errors.Join(errs...)
	}
	dir, err := artifacts.Open(r.out)
	if err != nil {
		return fmt.Errorf("save files: %w", err)
	}
	defer dir.Close()
	dir.Force = r.force
	x, err := r.d.Host.Sessions().Open(r.ctx, session.Owner{Tenant: localOrg}, res.SessionID)
	if err != nil {
		return fmt.Errorf("save files: %w", err)
	}
	defer x.Release()
	for _, f := range changed {
		saved, err := r.saveOne(dir, x, f.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not saved: %w", printable(f.Name), err))
			continue
		}
		fmt.Fprintf(r.Stderr, "saved %s\n", printable(saved))
	}
	return errors.Join(errs...)
}

func (r *runner) saveOne(dir *artifacts.Dir, x session.Session, name string) (string, error) {
	if !r.chosen && hidden(name) {
		// Tools act on such files in a working directory: .git, .envrc.
		return "", errors.New("it is hidden; name a directory for such files with --out")
	}
	content, _, err := x.Backend.ReadFile(r.ctx, x.Sandbox.Ref, path.Join(backend.DataDir, name))
	if err != nil {
		return "", err
	}
	defer content.Close()
	saved, err := dir.Save(name, content)
	if errors.Is(err, artifacts.ErrExists) {
		return "", fmt.Errorf("it %w; use --force or another --out", err)
	}
	return saved, err
}

// hidden reports whether a component of name begins with a dot.
func hidden(name string) bool { return strings.Contains("/"+name, "/.") }

// printable keeps a name that a program chose from steering the terminal.
func printable(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
