//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/serve"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/setup"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/tree"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// memory is what the agent's collector aims at: it shares with the programs.
const memory = 96 << 20

// sizes are how many launchers are ready for a program each, how many threads are there
// before programs may use up what the container has, and how much is done with files at
// a time. A container that may have few processes has fewer.
func sizes() (launchers, threads, slots int) {
	if all := kernel.PidsLimit(); all > 0 && all < 2*agentwire.MinPids {
		return 1, 4, 2
	}
	return 2, 16, 8
}

// serveMain is the agent. It says "ready" on its stdout and closes it.
func serveMain() error {
	debug.SetMemoryLimit(memory)
	unix.Umask(0)
	if os.Geteuid() != 0 {
		return errors.New("the agent has to be user 0 in its container")
	}
	dirs, err := setup.OpenDirs()
	if err != nil {
		return err
	}
	unlock, err := only(dirs)
	if err != nil {
		return err
	}
	defer unlock()
	if err := kernel.Confine(); err != nil {
		return err
	}
	launchers, threads, slots := sizes()
	kernel.Warm(threads)
	build, err := setup.Build()
	if err != nil {
		return err
	}
	uid, err := setup.SessionUID(dirs)
	if err != nil {
		return err
	}
	gid, err := setup.Data()
	if err != nil {
		return err
	}
	if err := work.MakePrograms(dirs.Programs); err != nil {
		return fmt.Errorf("make a directory for programs: %w", err)
	}
	name := setup.Introduce(uid, gid)
	killer := kernel.NewKiller()
	pool := work.NewPool(uid)
	reaper, err := reap.New(pool.Ended)
	if err != nil {
		return err
	}
	if err := work.EndOrphans(killer); err != nil {
		return err
	}
	launcher, err := launch.New(reaper, launchers)
	if err != nil {
		return err
	}
	host := &work.Host{
		FS:   &tree.FS{UID: uid, GID: gid, Programs: work.IsProgram, Slots: make(chan struct{}, slots)},
		Pool: pool, Killer: killer, Launcher: launcher, Index: new(changes.Index),
		Programs: dirs.Programs, Env: os.Environ(), User: name,
	}
	host.Open()
	exit := make(chan struct{})
	server := &serve.Server{Host: host, Build: build, Exit: func() { close(exit) }}
	server.Open()
	if err := server.Listen(dirs.Socket(), 0); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // ignoring it would be inherited
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		err = unix.Dup3(int(null.Fd()), 1, 0)
	}
	if err != nil {
		return err
	}
	select {
	case <-stop:
		host.EndAll()
	case <-exit:
	}
	return nil
}

// only makes sure that there is one agent in a container.
func only(dirs setup.Dirs) (unlock func(), err error) {
	f, err := os.OpenFile(dirs.Lock("serve"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another agent runs in this container: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
