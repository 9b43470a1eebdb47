package envd_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestSecrets plants tokens and looks for them in every error and log, with servers
// that send back what they were sent.
func TestSecrets(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for name, style := range styles {
		s := newStand(t, options{style: style})
		ref := s.sandbox()
		s.write(ref, data+"/f", "x")
		e, _ := s.Endpoint(ref.ID)
		secrets := []string{e.AccessToken, e.TrafficToken, "canary"}
		check := func(what string, v any) {
			t.Helper()
			text := fmt.Sprintf("%v %+v %#v", v, v, v)
			for _, secret := range secrets {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s holds a secret: %s", name, what, text)
				}
			}
		}
		check("an endpoint", e)
		check("a location", envd.Location{Endpoint: e})
		for _, f := range []envdfake.Fault{
			{Status: 401, Body: fmt.Sprintf(`{"code":401,"message":"bad token %s for %s"}`, e.AccessToken, e.TrafficToken)},
			{Status: 403, Body: fmt.Sprintf(`{"error":"bad token %s for %s"}`, e.AccessToken, e.TrafficToken)},
			{Status: 400, Body: fmt.Sprintf(`bad token %s for %s`, e.AccessToken, e.TrafficToken)},
			{Status: 400, Body: fmt.Sprintf(`{"code":"invalid_argument","message":"x %s y %s"}`, e.AccessToken, e.TrafficToken)},
			{Status: 409, Body: fmt.Sprintf(`{"code":409,"message":"%s %s"}`, e.AccessToken, e.TrafficToken)},
			{Status: 302, Header: map[string]string{"Location": "http://other.test/" + e.AccessToken + e.TrafficToken}},
			{Reset: true},
		} {
			s.gateway.Script.Clear()
			f.Times = -1
			s.gateway.Script.Add(f)
			_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
			check("Exec", err)
			_, err = s.Run(t.Context(), shellRun(ref, "true"), &listener{})
			check("Run", err)
			if f.Reset {
				break // every call would try again for seconds
			}
			_, err = s.Stat(t.Context(), ref, data)
			check("Stat", err)
			_, _, err = s.ReadFile(t.Context(), ref, data+"/f")
			check("ReadFile", err)
			_, err = s.WriteFile(t.Context(), ref, data+"/f", backend.WriteOptions{}, strings.NewReader("x"))
			check("WriteFile", err)
			_, err = s.OpenTerminal(t.Context(), backend.TerminalSpec{Ref: ref})
			check("OpenTerminal", err)
			_, err = s.DialWebSocket(t.Context(), ref, 6080, "/websockify", "binary", viewer)
			check("DialWebSocket", err)
			conn, err := s.DialPort(t.Context(), ref, 6080)
			check("DialPort", err)
			if err == nil {
				_ = conn.Close()
			}
			_, err = s.Metrics(t.Context(), ref)
			check("Metrics", err)
			check("Watch", s.Watch(t.Context(), ref, data, false, func(backend.WatchEvent) error { return io.EOF }))
		}
		// Nothing of it travels anywhere but in its own headers.
		for _, r := range s.requests("") {
			r.Header.Del("X-Access-Token")
			r.Header.Del("E2b-Traffic-Access-Token")
			r.Header.Del("Authorization")
			check("a request", fmt.Sprint(r.URL, r.Host, r.Header))
		}
	}
	if strings.Contains(logged.String(), "canary") {
		t.Errorf("the log holds a secret: %s", logged.String())
	}
}
