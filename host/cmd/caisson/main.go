// Caisson runs untrusted code in isolated sandboxes and answers POST /v1/exec.
//
// This is the standalone daemon and its operator's commands. A Go platform that
// embeds Caisson needs none of it: see package host.
package main

import (
	"context"
	"os"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), command.Env{
		Args:       os.Args,
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		LookupEnv:  os.LookupEnv,
		Executable: os.Executable,
	}))
}
