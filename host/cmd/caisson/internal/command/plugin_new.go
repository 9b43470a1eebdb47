package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/scaffold"
	"github.com/caisson-run/caisson/manifest"
	"github.com/urfave/cli/v3"
)

func (a *app) pluginNewCommand() *cli.Command {
	return &cli.Command{
		Name: "new", Usage: "write the beginning of a plugin", ArgsUsage: "KIND NAME",
		Description: "KIND is backend, policy or language. A new directory NAME gets a plugin that builds\n" +
			"(make build), is tested (make test) and passes lint and verify (make verify) as it\n" +
			"is. Policies are also written in assemblyscript, which needs npm, and in rego, which\n" +
			"needs Go or opa (make OPA=opa).",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lang", Usage: "`LANGUAGE` to write it in: go, assemblyscript or rego", Value: "go"},
			&cli.StringFlag{Name: "dir", Usage: "make the directory `DIR` instead of NAME"},
			&cli.StringFlag{Name: "sdk", Usage: "build against Caisson's sources in `DIR` instead of the published module"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := exactArgs(cmd, "KIND", "NAME"); err != nil {
				return err
			}
			p := scaffold.Project{
				Kind: cmd.Args().Get(0), Name: cmd.Args().Get(1), Lang: cmd.String("lang"),
				Dir: cmd.String("dir"), SDK: cmd.String("sdk"), Version: version(),
			}
			if err := manifest.CheckName(p.Name); err != nil {
				return usagef(cmd, "NAME %s: %w", brief(p.Name), err)
			}
			if !cmd.IsSet("dir") {
				p.Dir = p.Name
			}
			if err := checkPath(p.Dir); err != nil {
				return usagef(cmd, "--dir %s: %w", brief(p.Dir), err)
			}
			files, err := scaffold.Write(p)
			if _, ok := errors.AsType[*scaffold.DirError](err); ok && cmd.IsSet("dir") {
				err = fmt.Errorf("--dir: %w", err)
			}
			if err != nil {
				return err
			}
			if cmd.Bool("json") {
				return printJSON(a.Stdout, newReport{p.Dir, files, p.Next(elsewhere())})
			}
			for _, f := range files {
				fmt.Fprintf(a.Stdout, "%s/%s\n", p.Dir, f)
			}
			fmt.Fprintf(a.Stdout, "next: %s\n", p.Next(elsewhere()))
			return nil
		},
	}
}

// newReport is what --json prints of a new plugin.
type newReport struct {
	Dir string `json:"dir"`
	// Files are relative to Dir.
	Files []string `json:"files"`
	// Next is a line for a shell.
	Next string `json:"next"`
}

// elsewhere is where this program is, if it is not what a shell takes for caisson.
func elsewhere() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if found, err := exec.LookPath("caisson"); err == nil {
		a, err := os.Stat(found)
		b, err2 := os.Stat(self)
		if err == nil && err2 == nil && os.SameFile(a, b) {
			return ""
		}
	}
	return self
}
