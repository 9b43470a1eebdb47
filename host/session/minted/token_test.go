package minted

import (
	"testing"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A token that the provider tells once comes back out of the binding when the plugin
// has forgotten it, whatever way the sandbox is found.
func TestTokenToldOnce(t *testing.T) {
	s, d, _ := setup(t)
	for config, p := range d.providers {
		p.Caps = append(p.Caps, backend.CapTokenOnce)
		id := create(t, s, alice, config, session.CreateOptions{Origin: session.OriginExec})
		p.Restart()
		x, err := s.Open(t.Context(), alice, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Backend.Exec(t.Context(), backend.ExecRequest{Ref: x.Sandbox.Ref, Argv: []string{"pwd"}}); err != nil {
			t.Errorf("config %s, after a restart of the plugin: %v", config, err)
		}
		x.Release()
	}
}
