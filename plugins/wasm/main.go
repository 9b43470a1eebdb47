// Command wasm is the embedded backend as a plugin process. A host starts it
// and tells it in the environment where to keep sandboxes and caches.
//
//	wasm          serve the backend contract (a host does this)
//	wasm warm [LANGUAGE...]
//	              compile the interpreters of the languages, or of those that come
//	              with every installation, into the cache and exit
//	wasm transform-typescript
//	              compile what comes in (it starts itself so; see package typescript)
//	wasm run-shell-script
//	              run one script (it starts itself so; see package shell)
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/embedded"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/worker"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// version is that of plugin.yaml; a test holds them together.
const version = "0.1.0"

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 0:
		backend.Serve(open)
	case args[0] == "warm":
		exit(warm(args[1:]))
	case len(args) == 1 && args[0] == typescript.HelperArg:
		exit(typescript.Serve(os.Stdin, os.Stdout))
	case len(args) == 1 && args[0] == shell.WorkerArg:
		exit(worker.Serve())
	default:
		fmt.Fprintf(os.Stderr, "wasm: unknown argument %q: a host starts this without any; \"warm\" compiles the interpreters\n", args[0])
		os.Exit(2)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

// plugin is the backend together with the engine that only it uses.
type plugin struct {
	*embedded.Backend
	engine *interp.Engine
}

func (p plugin) Close() error {
	return errors.Join(p.Backend.Close(), p.engine.Close(context.Background()))
}

func open(_ context.Context, log hclog.Logger) (backend.Backend, error) {
	dir := os.Getenv(backend.EnvData)
	if dir == "" {
		return nil, fmt.Errorf("%s is not set: this is a plugin, to be started by a host", backend.EnvData)
	}
	engine, err := newEngine(func(err error) { log.Warn("packs", "error", err) })
	if err != nil {
		return nil, err
	}
	b, err := embedded.New(embedded.Options{
		Version: version, Dir: dir, Engine: engine, Quota: limits(), Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, engine.Close(context.Background()))
	}
	return plugin{b, engine}, nil
}

func warm(languages []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engine, err := newEngine(func(err error) { fmt.Fprintln(os.Stderr, "wasm:", err) })
	if err != nil {
		return err
	}
	for _, id := range languages {
		if !slices.ContainsFunc(engine.Languages(), func(l interp.Language) bool { return l.ID == id }) {
			return errors.Join(fmt.Errorf("warm: no language %q here", id), engine.Close(ctx))
		}
	}
	return errors.Join(engine.Warm(ctx, languages...), engine.Close(context.WithoutCancel(ctx)))
}

// envPacks says where the interpreters are, if not beside the program.
const envPacks = "CAISSON_WASM_PACKS"

// newEngine tells warn what is wrong with packs for which there is a substitute.
func newEngine(warn func(error)) (*interp.Engine, error) {
	dir := os.Getenv(envPacks)
	if dir == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(filepath.Dir(exe), "packs")
	}
	set := packs.Locate(dir)
	if err := set.Rejected(); err != nil {
		warn(err)
	}
	return interp.New(interp.Config{
		Packs:      set,
		CacheDir:   os.Getenv(backend.EnvCache),
		TypeScript: again(typescript.HelperArg),
		Shell:      again(shell.WorkerArg),
	})
}

// again is the command that starts this very program with another task, even where
// its file was replaced meanwhile.
func again(task string) []string {
	if runtime.GOOS == "linux" {
		return []string{"/proc/self/exe", task}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{exe, task}
}
