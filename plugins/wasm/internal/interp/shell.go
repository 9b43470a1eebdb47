package interp

import (
	"context"
	"errors"
	"fmt"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// shellPack stands where other commands have a pack: the shell is part of this
// program.
const shellPack = "shell"

// What Languages says of the shell.
const (
	shellVersion = "mvdan.cc/sh 3.14.1"
	shellLicence = "BSD-3-Clause"
)

// shellMissing says why there are no scripts; empty if there are.
func (e *Engine) shellMissing() string {
	if err := shell.Supported(); err != nil {
		return err.Error()
	}
	if len(e.cfg.Shell) == 0 {
		return "this process has no shell"
	}
	return ""
}

// newShell starts the shell, which can run every other interpreter that is there
// but the compilers.
func (e *Engine) newShell() (interpreter, error) {
	if why := e.shellMissing(); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrMissingPack, why)
	}
	var programs []string
	for _, c := range commands {
		if c.pack != shellPack && c.pack != packs.Clang && e.cfg.Packs.Check(c.pack) == nil {
			programs = append(append(programs, c.name), c.aliases...)
		}
	}
	return shell.New(shell.Config{Command: e.cfg.Shell, Dir: e.cfg.CacheDir, Programs: programs, Run: e.runWithin})
}

// runWithin runs a program that a script asks for. It has the script's slot: asking
// for one more while holding one is how all of them would wait for each other. Beside
// other programs that may make calls it counts as one more. The script is counted as a
// run, and sees the errors.
func (e *Engine) runWithin(ctx context.Context, p guest.Program) (guest.Result, error) {
	c, err := lookup(p.Argv[0])
	if err != nil || c.pack == shellPack {
		return guest.Result{}, errors.New("command not found")
	}
	e.needs(c.pack)
	in, err := e.interpreter(ctx, c.pack)
	if errors.Is(err, ErrPreparing) {
		return guest.Result{}, ErrPreparing
	}
	if err != nil {
		return guest.Result{}, errors.New("the interpreter cannot be started")
	}
	release, err := e.calling.begin(p)
	if err != nil {
		return guest.Result{}, errors.New("cannot allocate memory")
	}
	defer release()
	if err := p.Place.Enter(ctx); err != nil { // the script may have given it up
		return guest.Result{}, err
	}
	r, err := guest.New(ctx, p, in.MinMemoryBytes())
	if err != nil {
		p.Place.Leave()
		return guest.Result{}, err
	}
	defer r.Close()
	res, err := in.Run(ctx, r)
	if err != nil {
		return guest.Result{}, errors.New("the interpreter cannot be started")
	}
	return res, nil
}
