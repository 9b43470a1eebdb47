package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/urfave/cli/v3"
)

func (a *app) policyCommand() *cli.Command {
	number := &cli.IntFlag{Name: "n", Usage: "the newest `N`, at most 1000", Value: 20}
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	return &cli.Command{
		Name:  "policy",
		Usage: "look at what the policies of a running server decide",
		Commands: []*cli.Command{
			{
				Name: "decisions", Usage: "print the latest decisions, the oldest first",
				Description: "The server keeps the latest 1000 in memory. With --json the requests are printed\n" +
					"as policies may see them, callers' code included.",
				Flags: commonFlags(number, asJSON), Action: a.policyDecisions,
			},
			{
				Name: "replay", Usage: "ask another version of a policy about the latest requests", ArgsUsage: "NAME DIR",
				Description: "DIR holds the version with its plugin.yaml. Nothing changes. Exits with 1 when\n" +
					"the version fails to judge a request.",
				Flags: commonFlags(number, asJSON), Action: a.policyReplay,
			},
		},
		Action: func(_ context.Context, cmd *cli.Command) error { return groupAction(cmd) },
	}
}

func (a *app) policyDecisions(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	var out admin.Decisions
	if err := a.withServer(cmd, func(c *admin.Client) (err error) {
		out, err = c.Decisions(ctx, cmd.Int("n"))
		return err
	}); err != nil {
		return err
	}
	var err error
	if cmd.Bool("json") {
		err = printJSON(a.Stdout, append([]*host.Decision{}, out.Decisions...))
	} else {
		err = printDecisions(a.Stdout, out.Decisions)
	}
	if err == nil && out.Failed != "" {
		err = &kindError{failedIncomplete, errors.New("the decision log is not written any more: " + out.Failed)}
	}
	return err
}

func printDecisions(w io.Writer, list []*host.Decision) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no decisions yet")
		return err
	}
	t := newTable(w, "TIME", "ORG", "LANGUAGE", "BYTES", "OUTCOME", "POLICIES")
	for _, d := range list {
		outcome := "allowed"
		switch {
		case d.Outcome != nil:
			outcome = "ended: " + d.Outcome.Stop
		case !d.Allowed:
			outcome = "denied"
		}
		var said []string
		for _, r := range d.Rulings {
			said = append(said, ruling(r))
		}
		t.row(d.At.UTC().Format(time.RFC3339), d.Request.Org, d.Request.Language, fmt.Sprint(d.Request.CodeBytes), outcome, strings.Join(said, "; "))
	}
	return t.flush()
}

// ruling is one policy's say in a few words.
func ruling(r host.PolicyRuling) string {
	s := r.Policy + " " + string(r.Verdict.Decision)
	if r.Verdict.Decision == "" {
		s = r.Policy + " " + remarks(r.Warnings)
	}
	switch {
	case r.Error != "":
		s = r.Policy + " failed: " + r.Error
	case r.Verdict.Reason != "":
		s += ": " + r.Verdict.Reason
	}
	if r.Mode != host.PolicyDeny {
		s += " (" + string(r.Mode) + ")"
	}
	return s
}

// remarks are those on an outcome.
func remarks(list []policy.Remark) string {
	if len(list) == 0 {
		return "has no remarks"
	}
	reasons := make([]string, len(list))
	for i, w := range list {
		reasons[i] = w.Reason
	}
	return "remarks: " + strings.Join(reasons, ", ")
}

func (a *app) policyReplay(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "NAME", "DIR"); err != nil {
		return err
	}
	name, err := pluginArg(cmd, 0)
	if err != nil {
		return err
	}
	dir, err := dirArg(cmd, 1)
	if err != nil {
		return err
	}
	var r host.Replay
	if err := a.withServer(cmd, func(c *admin.Client) (err error) {
		r, err = c.ReplayPolicy(ctx, name, dir, cmd.Int("n"))
		return err
	}); err != nil {
		return err
	}
	if cmd.Bool("json") {
		err = printJSON(a.Stdout, r)
	} else {
		err = printReplay(a.Stdout, r)
	}
	if err == nil && r.Failed > 0 {
		return exitCode(exitFailure)
	}
	return err
}

func printReplay(w io.Writer, r host.Replay) error {
	_, err := fmt.Fprintf(w, "%d requests: %d verdicts the same, %d stricter, %d looser, %d otherwise, %d failed\n",
		r.Requests, r.Same, r.Stricter, r.Looser, r.Requests-r.Same-r.Stricter-r.Looser-r.Failed, r.Failed)
	for _, c := range r.Changes {
		q := c.Decision.Request
		was, is := string(c.Was.Decision)+" "+c.Was.Reason, string(c.Is.Decision)+" "+c.Is.Reason
		if c.Decision.Outcome != nil {
			was, is = remarks(c.Warned), remarks(c.Warns)
		}
		if c.Error != "" {
			is = "failed: " + c.Error
		}
		fmt.Fprintf(w, "  %s %s %s, %d bytes: was %s, is %s\n", c.Decision.At.UTC().Format(time.RFC3339), safe(q.Org), safe(q.Language), q.CodeBytes,
			safe(strings.TrimSpace(was)), safe(strings.TrimSpace(is)))
	}
	return err
}
