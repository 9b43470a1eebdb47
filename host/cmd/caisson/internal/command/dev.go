package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/config"
)

// devKey gives o the development key as its service key, unless the operator
// has set one: that is used then, and not printed.
func (a *app) devKey(data *datadir.Dir, o *deployment.Options) (string, error) {
	if v, _ := a.LookupEnv(config.KeyVariable); strings.TrimSpace(v) != "" {
		return "", nil
	}
	key, err := data.DevKey()
	if err != nil {
		return "", err
	}
	lookup := o.LookupEnv
	o.LookupEnv = func(name string) (string, bool) {
		if name == config.KeyVariable {
			return key, true
		}
		return lookup(name)
	}
	return key, nil
}

// printDev tells a developer how to call the server. An empty key is one that
// the shell has.
func printDev(w io.Writer, addr, key string) {
	header := "'X-API-Key: " + key + "'"
	shown := key
	if key == "" {
		header = `"X-API-Key: $` + config.KeyVariable + `"`
		shown = "the value of " + config.KeyVariable
	}
	fmt.Fprintf(w, `
Caisson serves http://%[1]s/v1/exec with the key %[2]s

  curl -s http://%[1]s/v1/exec -H %[3]s -H 'Content-Type: application/json' -d '{"lang":"py","code":"print(6 * 7)"}'

`, addr, shown, header)
}
