package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/client"
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
			"is used; without --data and a data directory, one of the user's.\n\n" +
			"With --url, or " + urlVariable + " in the environment, a server runs it.\n" + remoteHelp,
		Flags: commonFlags(append([]cli.Flag{
			&cli.StringFlag{Name: "lang", Usage: "the `LANGUAGE` (default: what the extension of FILE says)"},
			&cli.StringSliceFlag{Name: "file", Usage: "put a copy of `PATH` beside the program, as NAME with PATH=NAME; may be repeated"},
			&cli.StringFlag{Name: "out", Usage: "save changed files in `DIR`", Value: "."},
			&cli.BoolFlag{Name: "force", Usage: "replace files that exist"},
			&cli.BoolFlag{Name: "json", Usage: "print the whole result as JSON in the place of the output"},
			&cli.StringFlag{Name: "url", Usage: "have the server at `URL` run it"},
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
		return usagef(cmd, "--file: %w", err)
	}
	timeout := cmd.Duration("timeout").Milliseconds()
	if a.address(cmd) != "" {
		return a.runRemote(ctx, cmd, client.Run{Lang: lang, Code: code, Args: cmd.Args().Tail(), Timeout: timeout}, inputs)
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	ctx, _, release := a.signals(ctx, log)
	defer release()
	d, err := deployment.Local(ctx, deployment.Options{
		File: s.File, CacheDir: s.cacheDir(true), PluginDirs: s.pluginDirs, LookupEnv: a.LookupEnv, Log: log,
	})
	if err != nil {
		return err
	}
	r := runner{
		saver: saver{app: a, out: cmd.String("out"), chosen: cmd.IsSet("out"), force: cmd.Bool("force")},
		cmd:   cmd, d: d, ctx: ctx, backend: s.DefaultBackend,
	}
	exit, err := r.run(&exec.CodeRun{
		Lang: lang, Code: code, Args: cmd.Args().Tail(), Timeout: timeout,
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
			return nil, fmt.Errorf("%q: %q is no name for a file beside the program", f, in.name)
		}
		out = append(out, in)
	}
	return out, nil
}

// runner carries out one run and what belongs around it.
type runner struct {
	saver
	cmd *cli.Command
	d   *deployment.Deployment
	ctx context.Context
	// backend is the id of the default one.
	backend string
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
	return r.exit(res), errors.Join(r.output(r.cmd, res, res.Stdout, res.Stderr), r.keep(res))
}

// end drops the session; its files are saved or lost by now.
func (r *runner) end(session string, err *error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closeTimeout)
	defer cancel()
	*err = errors.Join(*err, r.d.Exec.End(ctx, localOrg, session))
}

// exit is the exit code that the program's end stands for.
func (r *runner) exit(res *exec.CodeResult) error {
	if r.ctx.Err() != nil {
		return exitCode(exitInterrupted)
	}
	return exitOf(res.Status, res.Code)
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

// keep saves the changed files of the run.
func (r *runner) keep(res *exec.CodeResult) error {
	var names []string
	for _, f := range res.Files {
		if !f.Inherited {
			names = append(names, f.Name)
		}
	}
	var delivery error
	if n := res.ArtifactDelivery; n != nil {
		delivery = lost(n.Failed, n.Attempted)
	}
	if len(names) == 0 || r.ctx.Err() != nil {
		return delivery
	}
	x, err := r.d.Host.Sessions().Open(r.ctx, session.Owner{Tenant: localOrg}, res.SessionID)
	if err != nil {
		return errors.Join(delivery, fmt.Errorf("save files: %w", err))
	}
	defer x.Release()
	return errors.Join(delivery, r.save(names, func(name string) (io.ReadCloser, error) {
		content, _, err := x.Backend.ReadFile(r.ctx, x.Sandbox.Ref, path.Join(backend.DataDir, name))
		return content, err
	}))
}
