package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestNoSecretLeaks: servers that repeat what they were sent, in plain text as this
// provider does, get nothing of it into an error or the log. The plugin of the other
// provider, which shares almost everything, is looked at more closely.
func TestNoSecretLeaks(t *testing.T) {
	r := rig(t, nil, func(o *controlfake.Options) { o.Violation = func(string) {} }) // failing is the point
	spec := remotetest.Spec("s")
	spec.Env = map[string]string{"TOKEN": "env_canary3391"}
	sb, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	_, traffic := r.Stand.Tokens(sb.ID)
	secrets := []string{remotetest.Key, "env_canary3391", traffic}
	checked := 0
	check := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		checked++
		for _, s := range secrets {
			if s == "" || strings.Contains(fmt.Sprintf("%v %#v", err, err), s) {
				t.Errorf("the error holds a secret: %v", err)
			}
		}
	}
	text := map[string]string{"Content-Type": "text/plain"}
	for _, status := range []int{400, 404, 409, 422} {
		r.Script.Add(envdfake.Fault{
			Method: "POST", Path: "/sandboxes", Status: status, Header: text, Times: -1,
			Body: "Authorization: Bearer " + remotetest.Key + " envVars.TOKEN=env_canary3391",
		})
		r.Script.Add(envdfake.Fault{Path: "/sandboxes/*", Status: status, Header: text, Body: remotetest.Key + " " + traffic, Times: -1})
		r.GatewayScript.Add(envdfake.Fault{Status: status, Header: text, Body: traffic, Times: -1})
		other := spec
		other.Session = "other"
		_, err := r.Create(t.Context(), other)
		check(err)
		_, err = r.Get(t.Context(), sb.Ref)
		check(err)
		_, err = r.Stat(t.Context(), sb.Ref, "/mnt/data")
		check(err)
		_, err = r.Exec(t.Context(), backend.ExecRequest{Ref: sb.Ref, Argv: []string{"true"}})
		check(err)
		r.Script.Clear()
		r.GatewayScript.Clear()
	}
	if checked < 12 {
		t.Errorf("only %d errors were looked at", checked)
	}
	if r.Log.Holds(secrets...) {
		t.Error("the log holds a secret")
	}
}
