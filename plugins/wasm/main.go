// Command wasm is the embedded backend as a plugin process. A host starts it
// and tells it in the environment where to keep sandboxes and caches.
//
//	wasm          serve the backend contract (a host does this)
//	wasm warm [LANGUAGE...]
//	              compile the interpreters of the languages, or of those that come
//	              with every installation, into the cache and exit
//	wasm compile-interpreter LANGUAGE NICE
//	              compile one into the cache, with a priority lower by NICE, until
//	              the input ends (it starts itself so; see package interp)
//	wasm transform-typescript
//	              compile what comes in (it starts itself so; see package typescript)
//	wasm run-shell-script
//	              run one script (it starts itself so; see package shell)
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	case len(args) == 3 && args[0] == interp.CompileArg:
		exit(compileInterpreter(args[1], args[2]))
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
	cfg, err := config(func(err error) { log.Warn("interpreters", "error", err) })
	if err != nil {
		return nil, err
	}
	r := findRoom()
	cfg.MaxCalling, cfg.CallingBytes = r.calling, r.callingBytes
	engine, err := interp.New(cfg)
	if err != nil {
		return nil, err
	}
	b, err := embedded.New(embedded.Options{
		Version: version, Dir: dir, Engine: engine, Quota: r.quota, Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, engine.Close(context.Background()))
	}
	return plugin{b, engine}, nil
}

// compileInterpreter is what the plugin starts another process for. That reads its
// input, which lasts as long as the plugin wants the result.
func compileInterpreter(language, nice string) error {
	n, err := strconv.Atoi(nice)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if n > 0 {
		lowerPriority(n)
	}
	if nice == interp.NiceAhead { // nobody waits, so that it may take twice as long
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
	return warm([]string{language})
}

func warm(languages []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := config(func(err error) { fmt.Fprintln(os.Stderr, "wasm:", err) })
	if err != nil {
		return err
	}
	cfg.Compile, cfg.Parked = nil, -1 // here, and for nobody
	engine, err := interp.New(cfg)
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

// config is that of the engine, which tells warn also what is wrong with packs for which
// there is a substitute.
func config(warn func(error)) (interp.Config, error) {
	exe, err := os.Executable()
	if err != nil {
		return interp.Config{}, err
	}
	dir := os.Getenv(envPacks)
	if dir == "" {
		dir = filepath.Join(filepath.Dir(exe), "packs")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return interp.Config{}, err
	}
	set := packs.Locate(dir)
	if err := set.Rejected(); err != nil {
		warn(err)
	}
	cache := os.Getenv(backend.EnvCache)
	if cache != "" {
		if cache, err = filepath.Abs(cache); err != nil {
			return interp.Config{}, err
		}
	}
	self := exe
	if runtime.GOOS == "linux" { // this very program, even where its file was replaced
		self = "/proc/self/exe"
	}
	return interp.Config{
		Packs:      set,
		CacheDir:   cache,
		TypeScript: []string{self, typescript.HelperArg},
		Shell:      []string{self, shell.WorkerArg},
		Compile:    []string{self},
		CompileEnv: []string{envPacks + "=" + dir, backend.EnvCache + "=" + cache},
		Warn:       warn,
	}, nil
}
