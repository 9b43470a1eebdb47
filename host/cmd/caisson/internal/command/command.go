// Package command is the command line of caisson: flags, help, output and exit
// codes. What a command does is done by the packages below it.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"
)

// Exit codes. `run` ends with the program's own code instead.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Env is the surroundings of one invocation.
type Env struct {
	// Args is the command line, the program's name first.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// LookupEnv is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Executable is os.Executable: plugins are looked for beside it.
	Executable func() (string, error)
}

// Main runs one command and returns the exit code. What goes wrong is told on
// Stderr: one line each, or with --json one object. When ctx ends, the command stops
// as on a signal.
func Main(ctx context.Context, env Env) int {
	a := &app{Env: env}
	err := a.root().Run(ctx, env.Args)
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if err == nil {
		return exitOK
	}
	a.fail(err)
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// app is one invocation.
type app struct {
	Env
	// cmd is the command that acts, once it does.
	cmd *cli.Command
}

// exitCode ends the program with a code and says nothing more.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is a command line that cannot be understood.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v; see %s --help", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

func usagef(cmd *cli.Command, format string, args ...any) error {
	return &usageError{cmd.FullName(), fmt.Errorf(format, args...)}
}

func (a *app) root() *cli.Command {
	root := &cli.Command{
		Name:  "caisson",
		Usage: "run untrusted code in isolated sandboxes, over POST /v1/exec",
		Description: "The environment:\n" +
			"   CODE_EXEC_API_KEY    the service key; without it, and without bearer tokens,\n" +
			"                        every request is refused with 503\n" +
			"   CODE_EXEC_FEE_CENTS  the price of a run in cents, default 1; 0 makes runs free.\n" +
			"                        CODE_EXEC_FEE_CENTS_RUN wins over it\n" +
			"   CAISSON_SECRET       the deployment secret, or several separated by commas,\n" +
			"                        the newest first; without it, DATA/secret is used",
		Commands: []*cli.Command{
			a.serveCommand(), a.runCommand(), a.filesCommand(), a.mcpCommand(), a.pluginCommand(), a.reloadCommand(), a.policyCommand(), a.doctorCommand(), a.sessionCommand(), a.ledgerCommand(), a.versionCommand(),
		},
		HideVersion: true,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version", Local: true}},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Bool("version") {
				return a.printVersion()
			}
			return groupAction(cmd)
		},
		Reader: a.Stdin, Writer: a.Stdout, ErrWriter: a.Stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // Main prints and exits
	}
	a.tidy(root)
	return root
}

// tidy applies to every command what the library would only do one by one.
func (a *app) tidy(cmd *cli.Command) {
	cmd.Action = a.remember(cmd.Action)
	cmd.HideHelpCommand = true
	cmd.DisableSliceFlagSeparator = true // file names may hold commas
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return &usageError{cmd.FullName(), lowerFirst(err)}
	}
	for _, sub := range cmd.Commands {
		a.tidy(sub)
	}
}

// groupAction is what a command does that only has others below it.
func groupAction(cmd *cli.Command) error {
	if name := cmd.Args().First(); name != "" {
		return usagef(cmd, "unknown command %q", name)
	}
	return usagef(cmd, "no command given")
}

// lowerFirst makes the library's messages look like ours.
func lowerFirst(err error) error {
	s := err.Error()
	if s == "" {
		return err
	}
	return errors.New(strings.ToLower(s[:1]) + s[1:])
}

// exactArgs checks how many arguments a command got.
func exactArgs(cmd *cli.Command, names ...string) error {
	if n := cmd.Args().Len(); n != len(names) {
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return usagef(cmd, "got %d arguments, want %s", n, want)
	}
	return nil
}
