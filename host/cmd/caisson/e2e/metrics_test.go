package e2e

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/internal/porttest"
)

// What operators scrape tells of runs, requests and plugins and of no caller, and
// callers are not answered it, with whatever they bring.
func TestMetricsAreForOperators(t *testing.T) {
	t.Parallel()
	const credential = "an operator's credential"
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey, "ADMIN_CREDENTIAL="+credential)
	admin := porttest.Free(t)
	s := p.serve(t, "--config", p.config(t, "admin:\n  listen: "+admin+"\n  credential: {env: ADMIN_CREDENTIAL}\n")).ready(t)
	ran := s.python(t, "open('marker-in-a-name.txt','w').write('x'); print('marker-in-code')")

	get := func(client *http.Client, url string, header ...string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		r, err := (&server{client: client}).do(req)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r, err := s.request(t.Context(), http.MethodGet, "/mcp", "", ""); err != nil || r.status != http.StatusUnauthorized {
		t.Errorf("the protocol's tools without a key: %+v, %v", r, err)
	}
	socket := filepath.Join(p.data, "admin.sock")
	local := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer local.CloseIdleConnections()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the socket: %v, %v; want it closed to others", info.Mode(), err)
	}
	for where, r := range map[string]reply{
		"address": get(s.client, "http://"+admin+"/metrics", "Authorization", "Bearer "+credential),
		"socket":  get(&http.Client{Transport: local}, "http://caisson/metrics"),
	} {
		if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", where, r.status, r.header)
		}
		for _, want := range []string{
			`caisson_runs_total{language="py",outcome="completed",stop="exit"} 1`,
			`caisson_http_requests_total{method="POST",route="/exec",status="200"} 1`,
			`caisson_http_requests_total{method="GET",route="/mcp",status="401"} 1`,
			`caisson_plugin_state{plugin="wasm",state="ready"} 1`,
			`caisson_plugin_calls_total{code="OK",method="Run",plugin="wasm"} 1`,
			`caisson_sessions_created_total{origin="exec"} 1`,
			"# TYPE caisson_run_duration_seconds histogram", "caisson_build_info{", "process_open_fds ", "go_goroutines ",
		} {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s lacks %s", where, want)
			}
		}
		for _, no := range []string{ran.SessionID, testKey, credential, "marker-in", p.data} {
			if strings.Contains(r.body, no) {
				t.Errorf("%s tells %q", where, no)
			}
		}
	}
	for _, path := range []string{"/metrics", "/v1/metrics", "/v1/exec/metrics", "/exec/metrics", "/events", "/v1/exec/events", "/v1/exec/../../metrics", "//metrics"} {
		for _, header := range [][]string{nil, {"X-API-Key", testKey}, {"Authorization", "Bearer " + credential}} {
			if r := get(s.client, s.url+path, header...); r.status == http.StatusOK || strings.Contains(r.body, "caisson_") {
				t.Errorf("callers are answered %s with %q: %d %.100q", path, header, r.status, r.body)
			}
		}
	}
	for _, header := range [][]string{nil, {"X-API-Key", testKey}, {"Authorization", "Bearer " + testKey}, {"X-API-Key", credential}} {
		for _, path := range []string{"/metrics", "/events"} {
			wantStatus(t, path, get(s.client, "http://"+admin+path, header...), http.StatusUnauthorized, "credential")
		}
	}
	s.stop(t)

	// Who says so opens the metrics, and nothing else.
	s = p.serve(t, "--config", p.config(t, "telemetry:\n  public_metrics: true\n"))
	s.eventually(t, "it answers", func() bool {
		r, err := s.request(t.Context(), http.MethodGet, "/metrics", "", "")
		return err == nil && r.status == http.StatusOK && strings.Contains(r.body, "caisson_build_info{")
	})
	if r := get(s.client, s.url+"/events"); r.status == http.StatusOK {
		t.Errorf("callers are answered events: %+v", r)
	}
	s.stop(t)
}
