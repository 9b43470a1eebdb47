package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/urfave/cli/v3"
)

func (a *app) sessionCommand() *cli.Command {
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	return &cli.Command{
		Name:  "session",
		Usage: "look after the sandboxes of a running server",
		Description: "A session is a sandbox, so the backends are asked and nothing is woken. These\n" +
			"commands talk to the server that holds the data directory, over a socket in it\n" +
			"that only the server's user may open.",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list sessions, the oldest first",
				Description: "With --json one object a line.",
				Flags: commonFlags(
					&cli.StringFlag{Name: "org", Usage: "only of this `ORG`"},
					&cli.StringFlag{Name: "backend", Usage: "only on the backend with this `ID`"},
					asJSON,
				),
				Action: a.sessionList,
			},
			{
				Name: "show", Usage: "show one session", ArgsUsage: "ID",
				Flags: commonFlags(asJSON), Action: a.sessionShow,
			},
			{
				Name: "end", Usage: "end sessions and delete what is in them", ArgsUsage: "ID...",
				Description: "With --json one object a line, for each session that has ended.",
				Flags:       commonFlags(asJSON), Action: a.sessionEnd,
			},
			{
				Name: "sweep", Usage: "end what outlived its clocks and delete what no session has, now",
				Description: "The server does this by itself every sessions.sweep (1m).",
				Flags:       commonFlags(asJSON), Action: a.sessionSweep,
			},
		},
		Action: func(_ context.Context, cmd *cli.Command) error { return groupAction(cmd) },
	}
}

// withServer talks to the server of the deployment.
func (a *app) withServer(cmd *cli.Command, f func(*admin.Client) error) error {
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	c, err := admin.Dial(s.Data)
	if err == nil {
		defer c.Close()
		err = f(c)
	}
	if errors.Is(err, admin.ErrNoServer) {
		return fmt.Errorf("%w: %s; start it, or name another with --data", err, s.Data)
	}
	return err
}

// sessions lists what there is, the oldest first.
func (a *app) sessions(ctx context.Context, c *admin.Client) (admin.Sessions, error) {
	out, err := c.List(ctx)
	slices.SortFunc(out.Sessions, func(x, y admin.Session) int {
		if n := x.Created.Compare(y.Created); n != 0 {
			return n
		}
		return strings.Compare(x.ID, y.ID)
	})
	return out, err
}

func (a *app) sessionList(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	return a.withServer(cmd, func(c *admin.Client) error {
		out, err := a.sessions(ctx, c)
		if err != nil {
			return err
		}
		list := slices.DeleteFunc(out.Sessions, func(s admin.Session) bool {
			org, on := cmd.String("org"), cmd.String("backend")
			return (org != "" && s.Org != org) || (on != "" && s.Config != on)
		})
		if cmd.Bool("json") {
			for _, s := range list {
				if err := printJSONLine(a.Stdout, s); err != nil {
					return err
				}
			}
			return incomplete(out.Failed)
		}
		t := newTable(a.Stdout, "ID", "ORG", "ORIGIN", "BACKEND", "STATE", "AGE", "IDLE", "NAME")
		for _, s := range list {
			t.row(s.ID, s.Org, s.Origin, s.Config, string(s.State), since(s.Created), since(s.LastActive), s.Name)
		}
		return errors.Join(t.flush(), incomplete(out.Failed))
	})
}

// incomplete turns what a server could not find out into an error.
func incomplete(why string) error {
	if why == "" {
		return nil
	}
	return &kindError{failedIncomplete, fmt.Errorf("incomplete: %s", why)}
}

// since is how long ago t was, in whole seconds.
func since(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return max(time.Since(t), 0).Truncate(time.Second).String()
}

func (a *app) sessionShow(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "ID"); err != nil {
		return err
	}
	id := cmd.Args().First()
	return a.withServer(cmd, func(c *admin.Client) error {
		out, err := a.sessions(ctx, c)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(out.Sessions, func(s admin.Session) bool { return s.ID == id })
		if at < 0 {
			return errors.Join(fmt.Errorf("session %q: %w", id, admin.ErrNotFound), incomplete(out.Failed))
		}
		s := out.Sessions[at]
		if cmd.Bool("json") {
			return printJSON(a.Stdout, s)
		}
		t := newTable(a.Stdout)
		for _, row := range [][2]string{
			{"id", s.ID},
			{"name", s.Name},
			{"organisation", s.Org},
			{"user", s.User},
			{"made by", s.Origin},
			{"backend", s.Config},
			{"sandbox", s.Sandbox},
			{"state", string(s.State)},
			{"created", moment(s.Created)},
			{"last active", moment(s.LastActive)},
			{"expires", moment(s.Expires)},
		} {
			if row[1] != "" {
				t.row(row[0], row[1])
			}
		}
		return t.flush()
	})
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}

func (a *app) sessionEnd(ctx context.Context, cmd *cli.Command) error {
	if !cmd.Args().Present() {
		return usagef(cmd, "got no arguments, want ID...")
	}
	return a.withServer(cmd, func(c *admin.Client) error {
		var errs []error
		for _, id := range cmd.Args().Slice() {
			err := c.End(ctx, id)
			if errors.Is(err, admin.ErrNoServer) {
				return err
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("session %q: %w", id, err))
				continue
			}
			if cmd.Bool("json") {
				err = printJSONLine(a.Stdout, map[string]string{"ended": id})
			} else {
				_, err = fmt.Fprintln(a.Stdout, "ended "+id)
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(errs...)
	})
}

func (a *app) sessionSweep(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	return a.withServer(cmd, func(c *admin.Client) error {
		r, err := c.Sweep(ctx)
		if err != nil {
			return err
		}
		switch {
		case cmd.Bool("json"):
			err = printJSON(a.Stdout, r)
		default:
			if r.Elsewhere > 0 {
				fmt.Fprintf(a.Stdout, "%d backends are being swept by another replica\n", r.Elsewhere)
			}
			_, err = fmt.Fprintf(a.Stdout, "sessions of runs: %d, ended %d\nsessions of the platform: %d, bound again %d, protected %d, deleted %d; bindings dropped %d\n",
				r.Sessions.Seen, r.Sessions.Ended, r.Sandboxes.Seen, r.Sandboxes.Adopted, r.Sandboxes.Protected, r.Sandboxes.Reaped, r.Sandboxes.Unbound)
		}
		return errors.Join(err, incomplete(r.Failed))
	})
}
