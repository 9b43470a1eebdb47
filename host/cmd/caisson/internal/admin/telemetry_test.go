package admin

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/hashicorp/go-hclog"
)

// Operators read metrics and events with their credential, and nobody without it.
func TestTelemetryIsForOperators(t *testing.T) {
	tel := telemetry.New(telemetry.Options{Version: "v9"})
	tel.Emit(telemetry.Event{Kind: telemetry.EventState, Plugin: "p", From: "starting", To: "ready"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const credential = "0123456789abcdef"
	s, err := ServeAddress(l, credential, &fixed{measured: tel}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		path, key string
		status    int
		want      string
	}{
		{"/metrics", "", 401, "credential"},
		{"/metrics", "0123456789abcdeF", 401, "credential"},
		{"/metrics", credential, 200, `caisson_build_info{version="v9"} 1`},
		{"/events?n=10", "", 401, "credential"},
		{"/events?n=10", credential, 200, `"to":"ready"`},
		{"/events?n=0", credential, 400, "n: must be"},
		{"/events", credential, 400, "n: must be"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s with %q: %d %.200s, %v", c.path, c.key, res.StatusCode, b, err)
		}
	}
}
