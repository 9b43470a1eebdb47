package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/config"
	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v3"
)

// operators is everything through which a running server is operated: the socket
// in its data directory, an address if one is configured, and SIGHUP.
type operators struct {
	stop    func() // of what changes the host
	servers []*admin.Server
	hangup  context.CancelFunc
	wg      sync.WaitGroup
}

// operated is a host that can read its configuration again.
type operated struct {
	*host.Host
	reload func(ctx context.Context) ([]string, error)
}

// Reload implements admin.PluginOperator.
func (o operated) Reload(ctx context.Context) ([]string, error) { return o.reload(ctx) }

// operate begins to answer operators.
func (a *app) operate(ctx context.Context, cmd *cli.Command, dataDir string, s settings, d *deployment.Deployment, log hclog.Logger) (*operators, error) {
	h := operated{d.Host, func(ctx context.Context) ([]string, error) { return a.reload(ctx, cmd, d) }}
	o := &operators{stop: d.Host.StopChanges}
	local, err := admin.Serve(ctx, dataDir, h, log.Named("admin"))
	if err != nil {
		return nil, err
	}
	o.servers = append(o.servers, local)
	if s.Admin.Listen != "" {
		remote, err := a.adminAddress(ctx, s.Admin, h, log)
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		o.servers = append(o.servers, remote)
	}
	o.onHangup(h, log)
	return o, nil
}

func (a *app) adminAddress(ctx context.Context, c config.Admin, h admin.Host, log hclog.Logger) (*admin.Server, error) {
	credential, err := c.Credential.Read(a.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("admin.credential: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	srv, err := admin.ServeAddress(l, credential, h, log.Named("admin"))
	if err == nil {
		log.Info("operators are answered", "address", "http://"+l.Addr().String())
	}
	return srv, err
}

// reload reads the configuration as the command line named it.
func (a *app) reload(ctx context.Context, cmd *cli.Command, d *deployment.Deployment) ([]string, error) {
	s, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	if addr := cmd.String("addr"); addr != "" {
		s.Listen = addr
	}
	changes, err := d.Reload(ctx, s.File, s.blank)
	if errors.Is(err, deployment.ErrBlank) {
		err = fmt.Errorf("%s: %w", s.path, err)
	}
	return changes, err
}

// onHangup reloads on SIGHUP until close.
func (o *operators) onHangup(h operated, log hclog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	o.hangup = cancel
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	o.wg.Go(func() {
		defer signal.Stop(ch)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ch:
			}
			changes, err := h.Reload(ctx)
			for _, c := range changes {
				log.Info("reloaded", "change", c)
			}
			switch {
			case err != nil:
				log.Error("configuration not reloaded, what was in force stays", "error", err)
			case len(changes) == 0:
				log.Info("reloaded, nothing has changed")
			}
		}
	})
}

// close stops answering.
func (o *operators) close() error {
	o.stop() // nobody waits for the watch of a swap
	if o.hangup != nil {
		o.hangup()
	}
	o.wg.Wait()
	var errs []error
	for _, s := range o.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
