package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/sdk/client"
	"github.com/urfave/cli/v3"
)

// Where a server is and who calls it, for commands that call one.
const (
	urlVariable   = "CAISSON_URL"
	tokenVariable = "CAISSON_TOKEN"
)

// remoteFlags are understood by every command that calls a server.
func remoteFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "url", Usage: "call the server at `URL` (default: " + urlVariable + ", else http://" + config.DefaultListen + ")"},
		&cli.StringFlag{Name: "data", Usage: "look in `DIR` for the key of serve --dev (default: data)"},
	)
}

const remoteHelp = "The key is read from " + config.KeyVariable + ", or a bearer token from " + tokenVariable + ". Without either, the\n" +
	"key of caisson serve --dev on this machine is used."

// address is the server that the command line or the environment names; empty without.
func (a *app) address(cmd *cli.Command) string {
	if u := cmd.String("url"); u != "" {
		return u
	}
	u, _ := a.LookupEnv(urlVariable)
	return u
}

// remote is a client of the server that the command line names.
func (a *app) remote(cmd *cli.Command) (*client.Client, error) {
	o := client.Options{URL: a.address(cmd)}
	if o.URL == "" {
		o.URL = "http://" + config.DefaultListen
	}
	if _, err := client.New(o); err != nil {
		return nil, usagef(cmd, "--url: %w", err)
	}
	key, _ := a.LookupEnv(config.KeyVariable)
	token, _ := a.LookupEnv(tokenVariable)
	o.Key, o.Token = strings.TrimSpace(key), strings.TrimSpace(token)
	if o.Key == "" && o.Token == "" && here(o.URL) {
		dir := cmd.String("data")
		if dir == "" {
			dir = defaultData
		}
		var err error
		o.Key, err = datadir.ReadDevKey(filepath.Join(dir, datadir.DevKeyFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if o.Key == "" && o.Token == "" {
		return nil, fmt.Errorf("there is no credential: set %s or %s", config.KeyVariable, tokenVariable)
	}
	return client.New(o)
}

// here reports whether an address is this machine's: the development key is for no other.
func here(address string) bool {
	u, err := url.Parse(address)
	return err == nil && loopbackOnly(u.Hostname()+":0") == nil
}

// told is an error with what a server said in it made fit for a terminal.
func told(err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		safe := *e
		safe.Message, safe.Code = printable(e.Message), printable(e.Code)
		return &safe
	}
	return err
}
