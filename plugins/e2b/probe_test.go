package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestProbe: what is wrong with a config is said before it is saved, and looking makes
// and wakes nothing.
func TestProbe(t *testing.T) {
	r := rig(t, nil)
	r.Park(r.Make("s").ID)
	for name, c := range map[string]struct {
		more  map[string]any
		fault *envdfake.Fault
		want  string // what the detail says; empty is right
	}{
		"right":                {nil, nil, ""},
		"another key":          {map[string]any{"api_key": "e2b_other"}, nil, "401"},
		"no template":          {map[string]any{"template_id": "absent"}, nil, "absent"},
		"a tag":                {map[string]any{"template_id": "base:default"}, nil, ""},
		"nobody there":         {map[string]any{"api_url": "http://127.0.0.1:1"}, nil, "cannot be reached"},
		"no gateway":           {map[string]any{"proxy_url": "http://127.0.0.1:1"}, nil, "proxy_url"},
		"a private address":    {map[string]any{"allow_private": false}, nil, "api_url"},
		"a page":               {nil, &envdfake.Fault{Path: "/v2/sandboxes", Status: 200, Body: "<html>log in</html>"}, "page"},
		"no lookup by name":    {nil, &envdfake.Fault{Path: "/templates/*", Status: 404, Times: -1}, ""},
		"healthy, and refused": {nil, &envdfake.Fault{Path: "/v2/sandboxes", Status: 403, Body: `{"code":403,"message":"blocked"}`}, "blocked"},
		"a redirect": {nil, &envdfake.Fault{
			Path: "/v2/sandboxes", Status: 302, Header: map[string]string{"Location": "https://login.example/"},
		}, "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fault != nil {
				r.Script.Add(*c.fault)
			}
			defer r.Script.Clear()
			r.Requests()
			report, err := r.Probe(t.Context(), remotetest.Config(r.Stand, c.more))
			if err != nil || report.OK != (c.want == "") || !strings.Contains(report.Detail, c.want) {
				t.Errorf("Probe = %+v, %v; want %q", report, err, c.want)
			}
			for _, call := range r.Calls() {
				if !strings.HasPrefix(call, "GET ") {
					t.Errorf("probing made the call %s", call)
				}
			}
			if report.OK && len(report.Languages) == 0 {
				t.Error("no language runs")
			}
		})
	}
	if states := r.States(); len(states) != 1 || !slices.Contains([]string{"paused"}, only(states)) {
		t.Errorf("probing left %v", states)
	}
	report, err := r.Probe(t.Context(), remotetest.Config(r.Stand, map[string]any{"languages": []map[string]string{{"id": "r", "toolchain": "rscript"}}}))
	if want := []backend.LanguageSupport{{ID: "r", Toolchain: "rscript"}}; err != nil || !slices.Equal(report.Languages, want) {
		t.Errorf("languages %v, want %v", report.Languages, want)
	}
	if report, err := r.Probe(t.Context(), json.RawMessage(`{"api_key":"`)); err != nil || report.OK {
		t.Errorf("Probe of what is no JSON = %+v, %v", report, err)
	}
}

func only(m map[string]string) string {
	for _, v := range m {
		return v
	}
	return ""
}
