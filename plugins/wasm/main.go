// Command wasm is the embedded backend as a plugin process. A host starts it
// and tells it in the environment where to keep sandboxes and caches.
//
//	wasm          serve the backend contract (a host does this)
//	wasm warm     compile the interpreters into the cache and exit
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/embedded"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// version is that of plugin.yaml; a test holds them together.
const version = "0.1.0"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	warm := len(args) == 1 && args[0] == "warm"
	if len(args) > 0 && !warm {
		return fmt.Errorf("unknown argument %q: a host starts this without any; %q compiles the interpreters", args[0], "warm")
	}
	engine, err := newEngine()
	if err != nil {
		return err
	}
	if warm {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return errors.Join(engine.Warm(ctx), engine.Close(ctx))
	}
	dir := os.Getenv(backend.EnvData)
	if dir == "" {
		return fmt.Errorf("%s is not set: this is a plugin, to be started by a host", backend.EnvData)
	}
	b, err := embedded.New(embedded.Options{
		Version: version, Dir: dir, Engine: engine, Quota: rootfs.DefaultLimits(),
		Log: hclog.New(&hclog.LoggerOptions{Name: "wasm", JSONFormat: true, Level: hclog.Debug}),
	})
	if err != nil {
		return errors.Join(err, engine.Close(context.Background()))
	}
	serving := backend.Serve(b)
	return errors.Join(serving, b.Close(), engine.Close(context.Background()))
}

// newEngine finds the packs beside the executable.
func newEngine() (*interp.Engine, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return interp.New(interp.Config{
		Packs:    packs.Locate(filepath.Join(filepath.Dir(exe), "packs")),
		CacheDir: os.Getenv(backend.EnvCache),
	})
}
