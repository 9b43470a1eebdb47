//go:build linux

// The agent runs inside a container of the Docker backend and carries out what the
// backend asks for: plugins/docker/internal/agentclient says how it gets there.
//
//	agent relay              connect stdin and stdout with the agent, started where needed
//	agent listen PATH UID    let the agent listen at PATH for connections of that user
//	agent hold               wait for SIGTERM: a main process for a container
//	agent serve              be the agent
//
// Under the name caisson-call it makes one call of the run that it is part of.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/relay"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/setup"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// mark tells builds of the same source apart; tests set it.
var mark string

func main() {
	if filepath.Base(os.Args[0]) == work.CallName {
		runtime.GOMAXPROCS(1) // there may be many, and few processes are allowed
		os.Exit(control.DialCommand(context.Background(), os.Getenv(control.EnvPath), os.Args[1:], os.Stdout, os.Stderr))
	}
	command, args := "", []string(nil)
	if len(os.Args) > 1 {
		command, args = os.Args[1], os.Args[2:]
	}
	var err error
	switch {
	case command == launch.Command && len(args) == 0:
		launch.Main()
	case command == "serve" && len(args) == 0:
		err = serveMain()
	case command == "relay" && len(args) == 0:
		err = relayMain()
	case command == "listen" && len(args) == 2:
		err = listenMain(args[0], args[1])
	case command == "hold" && len(args) == 0:
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
	default:
		err = fmt.Errorf("usage: agent%s relay | listen PATH UID | hold | serve", mark)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func relayMain() error {
	build, err := setup.Build()
	if err != nil {
		return err
	}
	c, hello, err := relay.Connect(build)
	if err != nil {
		return err
	}
	return relay.Bridge(c, hello)
}

func listenMain(path, uid string) error {
	n, err := strconv.Atoi(uid)
	if err != nil {
		return fmt.Errorf("uid: %w", err)
	}
	build, err := setup.Build()
	if err != nil {
		return err
	}
	c, _, err := relay.Connect(build)
	if err != nil {
		return err
	}
	if _, err := c.Write(agentwire.Preamble{Protocol: agentwire.Protocol}.Append(nil)); err != nil {
		return err
	}
	conn := agentwire.NewClient(c)
	defer conn.Close()
	ctx := context.Background()
	st, err := conn.Open(ctx, agentwire.OpListen, &agentwire.Listen{Path: path, UID: n})
	if err != nil {
		return err
	}
	if _, err := st.Recv(ctx); err == nil {
		return agentwire.ErrProtocol
	}
	return st.Answer(&agentwire.Empty{})
}
