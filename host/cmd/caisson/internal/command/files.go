package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"text/tabwriter"

	"github.com/caisson-run/caisson/sdk/client"
	"github.com/urfave/cli/v3"
)

func (a *app) filesCommand() *cli.Command {
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print JSON, one object a line"}
	return &cli.Command{
		Name:        "files",
		Usage:       "list, read and store the files of sessions on a server",
		Description: remoteHelp,
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the files of a session", ArgsUsage: "SESSION",
				Description: "Nothing is listed for a session that does not exist.",
				Flags:       remoteFlags(asJSON), Action: a.filesList,
			},
			{
				Name: "get", Usage: "save a file of a session", ArgsUsage: "SESSION FILE",
				Description: "FILE is its id or its path. It is saved under its own name, without directories, in the\n" +
					"working directory.",
				Flags: remoteFlags(
					&cli.StringFlag{Name: "out", Usage: "save it in `DIR`, or print it with -", Value: "."},
					&cli.BoolFlag{Name: "force", Usage: "replace a file that exists"},
				), Action: a.filesGet,
			},
			{
				Name: "put", Usage: "store files in a session", ArgsUsage: "PATH[=NAME]...",
				Description: "Programs find each file under the name of PATH without directories, or NAME.",
				Flags: remoteFlags(
					&cli.StringFlag{Name: "session", Usage: "put them into the session with this `ID` (default: a new one)"},
					asJSON,
				), Action: a.filesPut,
			},
		},
		Action: func(_ context.Context, cmd *cli.Command) error { return groupAction(cmd) },
	}
}

// shownFile is a file as --json prints it.
type shownFile struct {
	SessionID string `json:"session_id"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Type      string `json:"type,omitempty"`
}

// show prints files as a table or as JSON.
func (a *app) show(asJSON bool, files []shownFile) error {
	if asJSON {
		for _, f := range files {
			if err := printJSONLine(a.Stdout, f); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSIZE\tNAME")
	for _, f := range files {
		fmt.Fprintf(w, "%s\t%d\t%s\n", printable(f.ID), f.Size, printable(f.Name))
	}
	return w.Flush()
}

func (a *app) filesList(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "SESSION"); err != nil {
		return err
	}
	c, err := a.remote(cmd)
	if err != nil {
		return err
	}
	list, err := c.List(ctx, cmd.Args().First())
	if err != nil {
		return told(err)
	}
	files := make([]shownFile, len(list))
	for i, f := range list {
		files[i] = shownFile{f.StorageSessionID, f.ID, f.Name, f.Size, f.ContentType}
	}
	return a.show(cmd.Bool("json"), files)
}

func (a *app) filesGet(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "SESSION", "FILE"); err != nil {
		return err
	}
	c, err := a.remote(cmd)
	if err != nil {
		return err
	}
	session, file := cmd.Args().Get(0), cmd.Args().Get(1)
	open := func(string) (io.ReadCloser, error) {
		x, err := c.Open(ctx, session, file, 0, 0)
		if err != nil {
			return nil, told(err)
		}
		return x, nil
	}
	if cmd.String("out") == "-" {
		x, err := open(file)
		if err != nil {
			return err
		}
		defer x.Close()
		_, err = io.Copy(a.Stdout, x)
		return err
	}
	name, err := nameOf(ctx, c, session, file)
	if err != nil {
		return told(err)
	}
	s := saver{app: a, out: cmd.String("out"), chosen: cmd.IsSet("out"), force: cmd.Bool("force")}
	return s.save([]string{path.Base(name)}, open)
}

// nameOf is the path of a file that is given by its id or path.
func nameOf(ctx context.Context, c *client.Client, session, file string) (string, error) {
	list, err := c.List(ctx, session)
	if err != nil {
		return "", err
	}
	for _, f := range list {
		if f.ID == file || f.Name == file {
			return f.Name, nil
		}
	}
	return "", errors.New("the session has no such file, or does not exist")
}

func (a *app) filesPut(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() == 0 {
		return usagef(cmd, "no PATH given")
	}
	inputs, err := inputFiles(cmd.Args().Slice())
	if err != nil {
		return usagef(cmd, "%w", err)
	}
	c, err := a.remote(cmd)
	if err != nil {
		return err
	}
	files, err := putAll(ctx, c, cmd.String("session"), inputs)
	if len(files) > 0 { // what is stored is told, whatever became of the rest
		if !cmd.Bool("json") {
			fmt.Fprintf(a.Stdout, "session %s\n", printable(files[0].SessionID))
		}
		err = errors.Join(err, a.show(cmd.Bool("json"), files))
	}
	return err
}

// putAll stores files in one session and returns those that it stored.
func putAll(ctx context.Context, c *client.Client, session string, inputs []input) (files []shownFile, err error) {
	for _, in := range inputs {
		f, err := os.Open(in.path)
		if err != nil {
			return files, err
		}
		stored, err := c.Put(ctx, session, in.name, f)
		_ = f.Close() // it was only read from
		if err != nil {
			return files, fmt.Errorf("%s: %w", in.path, told(err))
		}
		session = stored.SessionID
		files = append(files, shownFile{SessionID: stored.SessionID, ID: stored.ID, Name: stored.Name, Size: stored.Size})
	}
	return files, nil
}
