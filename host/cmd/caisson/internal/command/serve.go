package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/server"
	"github.com/caisson-run/caisson/host/config"
	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v3"
)

const (
	// closeTimeout bounds the stop of plugins after the last request ended.
	closeTimeout = 10 * time.Second
	// gcPercent makes the collector come twice as often as by default: most of the
	// heap is the memory of modules, which it need not look at, and as much again would
	// be left to garbage.
	gcPercent = 50
	// readyPatience is how long not being ready is taken for starting up.
	readyPatience = 10 * time.Second
)

func (a *app) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "answer POST /v1/exec and what belongs to it",
		Description: "GET /v1/exec/health answers 200 as soon as a run would succeed, and 503 before.\n" +
			"SIGTERM and SIGINT stop accepting and let runs in flight finish, for the time of\n" +
			"\"drain\" in the configuration (30s); a second signal cancels them. SIGHUP reads\n" +
			"the configuration again and looks for plugins that were installed meanwhile.",
		Flags: commonFlags(append([]cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "listen on `HOST:PORT` (default: 127.0.0.1:8080)"},
			&cli.BoolFlag{Name: "dev", Usage: "serve this machine only, with a key kept in DATA/dev-key, and print how to call it"},
		}, logFlags("info")...)...),
		Action: a.serve,
	}
}

func (a *app) serve(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if addr := cmd.String("addr"); addr != "" {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return usagef(cmd, "--addr %q: must be HOST:PORT", addr)
		}
		s.Listen = addr
	}
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	if cmd.Bool("dev") {
		if err := loopbackOnly(s.Listen); err != nil {
			return err
		}
	}
	if v, _ := a.LookupEnv("GOGC"); v == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, cut, release := a.signals(ctx, log)
	defer release()

	data, err := datadir.Open(s.Data)
	if err != nil {
		return err
	}
	defer func() {
		if err := data.Close(); err != nil {
			log.Warn("data directory not released", "error", err)
		}
	}()
	keys, source, err := data.Keys(a.LookupEnv)
	if err != nil {
		return err
	}
	if s.Sessions.Store == config.StoreRedis && source != datadir.SecretVariable {
		return fmt.Errorf("replicas that share a session store need the same secret: set %s to 16 or more random bytes on each of them", datadir.SecretVariable)
	}
	log.Debug("deployment secret read", "source", source)
	measured, flush, err := a.measure(ctx, s, log)
	if err != nil {
		return err
	}
	defer flush()
	o := deployment.Options{
		File: s.File, DataDir: data.Path(), LedgerPath: s.ledgerPath(),
		PluginDirs: s.pluginDirs, Keys: keys, LookupEnv: a.LookupEnv, Log: log, Version: version(),
		Telemetry: measured,
	}
	devKey := ""
	if cmd.Bool("dev") {
		if devKey, err = a.devKey(data, &o); err != nil {
			return err
		}
	}

	l, err := listen(ctx, s.Listen)
	if err != nil {
		return err
	}
	srv := server.Start(l, log.Named("http"))
	if s.Telemetry.PublicMetrics {
		srv.HandleOwn("GET /metrics", "/metrics", measured.Handler())
	}
	d, err := deployment.Serve(ctx, o, srv)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // stopped while starting: that is what was asked for
		}
		return errors.Join(err, srv.Shutdown(cut))
	}
	operators, err := a.operate(ctx, cmd, data.Path(), s, d, log)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return errors.Join(err, srv.Shutdown(cut), d.Close(closing))
	}
	srv.Ready()
	log.Info("serving", "address", "http://"+l.Addr().String(), "data", data.Path())
	if s.blank {
		log.Warn("the configuration says nothing, so the defaults apply", "file", s.path)
	}
	a.warn(log, d)
	a.awaitReady(ctx, srv, d, log, func() {
		if cmd.Bool("dev") {
			printDev(a.Stdout, l.Addr().String(), devKey)
		}
	})

	select {
	case <-ctx.Done():
		log.Info("stopping", "in_flight", srv.InFlight(), "drain", time.Duration(s.Drain).String())
	case <-srv.Done():
	}
	d.Drain()
	drain, cancel := context.WithTimeout(cut, time.Duration(s.Drain))
	defer cancel()
	if err = srv.Shutdown(drain); err != nil {
		log.Warn("the server did not stop by itself", "error", err)
	}
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := errors.Join(operators.close(), d.Close(closing)); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("stopped")
	if ctx.Err() == nil {
		return err // nobody asked it to stop
	}
	return nil
}

// signals returns a context that ends with the first SIGTERM or SIGINT and one
// that ends with the second. A third ends the process. release gives the
// signals back.
func (a *app) signals(parent context.Context, log hclog.Logger) (stop, cut context.Context, release func()) {
	stop, stopNow := context.WithCancel(parent)
	cut, cutNow := context.WithCancel(context.WithoutCancel(parent))
	ch := make(chan os.Signal, 3)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, then := range []struct {
			say string
			do  func()
		}{
			{"signal received; send another to cancel runs in flight", stopNow},
			{"second signal received, cancelling runs in flight", func() { cutNow(); signal.Stop(ch) }},
		} {
			select {
			case <-ch:
				log.Debug(then.say)
				then.do()
			case <-done:
				return
			}
		}
	})
	return stop, cut, func() {
		signal.Stop(ch)
		close(done)
		wg.Wait()
		stopNow()
		cutNow()
	}
}

// listen says what to do about the usual failures.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: another program listens there: stop it, or choose another address with --addr", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: ports below 1024 need privileges: choose another with --addr", addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// warn tells what is open to surprise about a deployment that starts.
func (a *app) warn(log hclog.Logger, d *deployment.Deployment) {
	for _, w := range d.Warnings() {
		log.Warn(w)
	}
}

// awaitReady waits until a run would succeed and calls then, or until ctx or
// the server ends. It says why when that takes long.
func (a *app) awaitReady(ctx context.Context, srv *server.Server, d *deployment.Deployment, log hclog.Logger, then func()) {
	tick := time.NewTicker(readyPause)
	defer tick.Stop()
	began, said := time.Now(), false
	for {
		err := d.Host.Ready(ctx)
		if err == nil {
			log.Info("ready", "after", time.Since(began).Round(time.Millisecond).String())
			then()
			return
		}
		if !said && time.Since(began) > readyPatience {
			log.Warn("runs cannot succeed yet", "reason", err)
			said = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-srv.Done():
			return
		}
	}
}

// loopbackOnly refuses addresses that other machines may reach: a development
// key is printed, and kept in a file.
func loopbackOnly(addr string) error {
	h, _, _ := net.SplitHostPort(addr) // checked before
	if ip := net.ParseIP(h); h == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("--dev serves this machine only and %q is open to others: use 127.0.0.1, or leave --dev out and set %s", addr, config.KeyVariable)
}
