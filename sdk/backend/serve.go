package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/caisson-run/caisson/internal/pluginwire"
)

const (
	// drainTime is how long calls may go on after SIGTERM, which the host follows
	// with SIGKILL after a second, or when no host has come.
	drainTime = 700 * time.Millisecond
	// closeTime is how long a backend's Close may take.
	closeTime = 1500 * time.Millisecond
	// orphanInterval is how often a plugin looks whether its host still lives.
	orphanInterval = time.Second
)

// Serve is the main function of a plugin process:
//
//	func main() {
//		backend.Serve(func(ctx context.Context, log hclog.Logger) (backend.Backend, error) {
//			return mybackend.New(log), nil
//		})
//	}
//
// It calls open once, serves what that returns until the host ends the process,
// and then closes it if it is an io.Closer, for at most 1.5 s. ctx ends with the
// serving. open delays the start, for which the host allows 10 s unless the
// manifest says otherwise: slow work belongs behind it, and Health says when it
// is done.
//
// log writes JSON lines to stderr, which the host bridges into its own log: 200 lines
// and 64 KiB a second, and larger bursts. It drops what exceeds that, and reads it at
// 16 MiB a second: whoever logs more waits.
// From here on whatever writes to standard output writes there too. The process
// ends with its host, even when that is killed, unless the manifest has it wait for
// another for a while. A panic in a call of the backend
// becomes an error; one in a goroutine of its own ends the process, as always.
//
// When the backend cannot be served, a capability without its interface
// included, Serve writes the reason to stderr and exits with status 1.
func Serve(open func(ctx context.Context, log hclog.Logger) (Backend, error)) {
	if !pluginwire.StartedByHost(os.Getenv) {
		fmt.Fprintln(os.Stderr, "this program is a Caisson plugin; a host starts it")
		os.Exit(1)
	}
	if err := serve(open); err != nil {
		os.Exit(1)
	}
}

func serve(open func(context.Context, hclog.Logger) (Backend, error)) error {
	stdio, err := guardStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "redirect standard output:", err)
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{
		Level:      hclog.LevelFromString(os.Getenv(pluginwire.EnvLogLevel)),
		Output:     stdio.stderr,
		JSONFormat: true,
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go exitWithHost(ctx, log)

	b, err := open(ctx, log)
	if err != nil {
		log.Error("cannot open the backend", "error", err)
		return err
	}
	defer closeBackend(b, log)
	info, err := describe(ctx, b)
	if err != nil {
		log.Error("cannot serve the backend", "error", err)
		return err
	}

	keep, err := keptTime()
	if err != nil {
		log.Error("cannot serve the backend", "error", err)
		return err
	}
	if keep > 0 { // its host may not be there to do so
		defer os.RemoveAll(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
	}
	hosts := &attendance{}

	served := false
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: pluginwire.Handshake(),
		Plugins:         pluginwire.Plugins(),
		Logger:          log.Named("go-plugin"),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			served = true
			s := newServer(b, info, log, append(append(opts, stdio.restoreOption()...), grpc.StatsHandler(hosts)))
			go stopOnSignal(ctx, s)
			if keep > 0 {
				go hosts.stopUnattended(ctx, keep, log, s)
			}
			return s
		},
	})
	if !served {
		return errors.New("no socket to serve on") // logged by go-plugin
	}
	return nil
}

// stopOnSignal ends serving on SIGTERM, letting calls finish for a moment.
func stopOnSignal(ctx context.Context, s *grpc.Server) {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM)
	defer signal.Stop(sig)
	select {
	case <-sig:
	case <-ctx.Done():
		return
	}
	drain(s)
}

// drain ends serving, letting calls finish for a moment. It returns when they have, which
// one that is stuck never does: the serving does not wait for that.
func drain(s *grpc.Server) {
	timer := time.AfterFunc(drainTime, s.Stop)
	defer timer.Stop()
	s.GracefulStop()
}

// exitWithHost ends the process when its host is gone: the parent-death signal
// does not exist everywhere, and never fires for a host that died before it was
// set.
func exitWithHost(ctx context.Context, log hclog.Logger) {
	host, err := strconv.Atoi(os.Getenv(pluginwire.EnvHostPID))
	if err != nil {
		return // a plugin that may outlive its host, or a host that does not say
	}
	tick := time.NewTicker(orphanInterval)
	defer tick.Stop()
	for {
		if os.Getppid() != host {
			log.Warn("the host is gone, exiting")
			os.Exit(1)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func closeBackend(b Backend, log hclog.Logger) {
	c, ok := b.(io.Closer)
	if !ok {
		return
	}
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		if err != nil {
			log.Warn("closing the backend", "error", err)
		}
	case <-time.After(closeTime):
		log.Warn("closing the backend took too long", "limit", closeTime.String())
	}
}

// stdio are the standard streams of a plugin process. The handshake needs the
// real standard output; everybody else's writes to it belong in the log.
type stdio struct {
	stdout, stderr *os.File // what the process shall see: both lead to the log
	once           sync.Once
}

// restoreOption undoes on the first call what go-plugin does to os.Stdout and
// os.Stderr: it carries them in a stream of 1 KiB messages, which blocks their
// writers when the host does not keep up, and loses the last words of a crash.
func (s *stdio) restoreOption() []grpc.ServerOption {
	restore := func() { os.Stdout, os.Stderr = s.stdout, s.stderr }
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			s.once.Do(restore)
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			s.once.Do(restore)
			return next(srv, ss)
		}),
	}
}
