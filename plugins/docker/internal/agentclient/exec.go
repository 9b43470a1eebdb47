package agentclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Exec is backend.Backend.Exec. The command runs as a user of its own, beside runs, and
// is ended with everything that it started; a User other than the default is unsupported.
func (c *Client) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	if req.User != "" {
		return backend.ExecResult{}, backend.Errorf(backend.KindUnsupported, op, "user: the agent chooses it")
	}
	argv := req.Argv
	if req.Shell {
		argv = []string{"/bin/sh", "-c", req.Argv[0]}
	}
	maxOutput := req.MaxOutputBytes
	if maxOutput == 0 {
		maxOutput = 1 << 20
	}
	spec := backend.RunSpec{
		RunID: newID(), Env: req.Env, Dir: req.Dir, Stdin: len(req.Stdin) > 0,
		Steps:  []backend.Step{{Argv: argv}},
		Limits: backend.Limits{Wall: req.Timeout, StdoutBytes: maxOutput, StderrBytes: maxOutput},
	}
	out := &captured{stdin: req.Stdin}
	m := c.wireRun(&spec, agentwire.Command)
	m.File, m.Collect.Skip = "", true
	began := time.Now()
	r, err := c.begin(ctx, m, &spec, out)
	if err != nil {
		return backend.ExecResult{}, convert(ctx, op, err)
	}
	defer r.end()
	res, err := r.follow()
	if err != nil {
		return backend.ExecResult{}, r.explain(op, err)
	}
	if res.Stop == backend.StopLost {
		return backend.ExecResult{}, convert(ctx, op, fmt.Errorf("%w: %s", ErrLost, res.Message))
	}
	wall := res.Usage.Wall
	if wall <= 0 {
		wall = time.Since(began)
	}
	return backend.ExecResult{
		Stop: res.Stop, ExitCode: res.ExitCode, Signal: res.Signal, Stdout: out.stdout, Stderr: out.stderr,
		StdoutTruncated: res.StdoutTruncated, StderrTruncated: res.StderrTruncated, Wall: wall,
	}, nil
}

func newID() string { return rand.Text() }

// captured is the RunIO of a command whose output is collected. The agent bounds it.
type captured struct {
	stdin          []byte
	stdout, stderr []byte
}

func (c *captured) Input(int) (io.Reader, error) { return nil, errors.New("there are no inputs") }
func (c *captured) Stdin() io.Reader             { return bytes.NewReader(c.stdin) }
func (c *captured) Started() error               { return nil }

func (c *captured) Stdout(p []byte) error { return keep(&c.stdout, p) }
func (c *captured) Stderr(p []byte) error { return keep(&c.stderr, p) }

// maxCaptured is more than an agent that keeps to its limits sends.
const maxCaptured = 128 << 20

func keep(all *[]byte, p []byte) error {
	if len(*all)+len(p) > maxCaptured {
		return errors.New("more output than was asked for")
	}
	*all = append(*all, p...)
	return nil
}

func (c *captured) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, backend.Errorf(backend.KindUnsupported, "Call", "a command makes no calls")
}
