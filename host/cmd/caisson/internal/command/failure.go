package command

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/sdk/client"
	"github.com/urfave/cli/v3"
)

// failureKind says for programs what kept a command from doing its work. The words
// are part of the output's contract; docs/operators.md lists them.
type failureKind string

const (
	failedUsage         failureKind = "usage"         // the command line cannot be understood
	failedConfiguration failureKind = "configuration" // the configuration file is wrong
	failedNoServer      failureKind = "no_server"     // none runs with the data directory
	failedNotFound      failureKind = "not_found"     // what was named is not there
	failedRefused       failureKind = "refused"       // what was named was looked at, and is not right
	failedIncomplete    failureKind = "incomplete"    // what was printed is not all
	failedServer        failureKind = "server"        // the server that --url names refused
	failedOther         failureKind = "failed"
)

// failureReport is what --json prints of an error, on stderr and in one line.
type failureReport struct {
	Error struct {
		Kind    failureKind `json:"kind"`
		Message string      `json:"message"`
		// Code is the server's own word, of failedServer only.
		Code string `json:"code,omitempty"`
	} `json:"error"`
}

// kindError gives an error its kind where its type does not say it.
type kindError struct {
	kind failureKind
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// kindOf is the kind of an error. Who printed a result and then found a fault with it
// says so by a kindError, which counts most.
func kindOf(err error) failureKind {
	if e, ok := errors.AsType[*kindError](err); ok {
		return e.kind
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return failedUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return failedConfiguration
	}
	if _, ok := errors.AsType[*client.Error](err); ok {
		return failedServer
	}
	switch {
	case errors.Is(err, admin.ErrNoServer):
		return failedNoServer
	case errors.Is(err, admin.ErrNotFound), errors.Is(err, host.ErrNoPlugin), errors.Is(err, fs.ErrNotExist):
		return failedNotFound
	}
	return failedOther
}

// fail tells an error on stderr: as one object with --json, else in lines. What others
// wrote, which is part of many errors, cannot steer the terminal.
func (a *app) fail(err error) {
	if a.wantsJSON(err) {
		var r failureReport
		r.Error.Kind, r.Error.Message = kindOf(err), strings.TrimRight(err.Error(), "\n")
		if e, ok := errors.AsType[*client.Error](err); ok {
			r.Error.Code = e.Code
		}
		_ = printJSONLine(a.Stderr, r) // there is nobody else to tell
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		_, _ = a.Stderr.Write([]byte("caisson: " + safe(line) + "\n"))
	}
}

// wantsJSON reports whether the command was asked for JSON. Of a command line that was
// not understood nobody knows more than the words.
func (a *app) wantsJSON(err error) bool {
	if a.cmd != nil && slices.ContainsFunc(a.cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "json") }) {
		return a.cmd.Bool("json")
	}
	if _, ok := errors.AsType[*usageError](err); !ok {
		return false
	}
	words := a.Args
	if i := slices.Index(words, "--"); i >= 0 {
		words = words[:i]
	}
	return slices.ContainsFunc(words, func(w string) bool { return w == "--json" || w == "-json" || w == "--json=true" })
}

// remember has the command that acts be known to fail.
func (a *app) remember(act cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		a.cmd = cmd
		return act(ctx, cmd)
	}
}
