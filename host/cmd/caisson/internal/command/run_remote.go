package command

import (
	"context"
	"errors"
	"io"

	"github.com/caisson-run/caisson/sdk/client"
	"github.com/urfave/cli/v3"
)

// runRemote has a server run the program. The session and its files stay there, until
// its clocks end it.
func (a *app) runRemote(ctx context.Context, cmd *cli.Command, in client.Run, inputs []input) error {
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	c, err := a.remote(cmd)
	if err != nil {
		return err
	}
	ctx, _, release := a.signals(ctx, log)
	defer release()
	placed, err := putAll(ctx, c, "", inputs)
	if err != nil {
		return err
	}
	if len(placed) > 0 {
		in.SessionID = placed[0].SessionID
	}
	res, err := c.Run(ctx, in)
	if err != nil {
		if ctx.Err() != nil {
			return exitCode(exitInterrupted)
		}
		return told(err)
	}
	if err := a.output(cmd, res, res.Stdout, res.Stderr); err != nil {
		return err
	}
	var names []string
	ids := make(map[string]string)
	for _, f := range res.Files {
		if !f.Inherited {
			names = append(names, f.Name)
			ids[f.Name] = f.ID
		}
	}
	s := saver{app: a, out: cmd.String("out"), chosen: cmd.IsSet("out"), force: cmd.Bool("force")}
	err = s.save(names, func(name string) (io.ReadCloser, error) {
		x, err := c.Open(ctx, res.SessionID, ids[name], 0, 0)
		if err != nil {
			return nil, told(err)
		}
		return x, nil
	})
	if res.ArtifactDelivery.Failed > 0 {
		err = errors.Join(lost(res.ArtifactDelivery.Failed, res.ArtifactDelivery.Attempted), err)
	}
	if err != nil {
		return err
	}
	return exitOf(res.Status, res.Code)
}

// output prints what a program wrote as it was, or with --json the whole result.
func (a *app) output(cmd *cli.Command, result any, stdout, stderr string) error {
	if !cmd.Bool("json") {
		_, outErr := io.WriteString(a.Stdout, stdout)
		_, errErr := io.WriteString(a.Stderr, stderr)
		return errors.Join(outErr, errErr)
	}
	return printJSONLine(a.Stdout, result)
}
