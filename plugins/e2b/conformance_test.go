package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// The test binary is its own plugin; a plugin is told where to keep things.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvData) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// apiKey is planted, and looked for where it must not be.
const apiKey = "e2b_canary5d1f0c7a9b3e48d2"

// stand starts a provider for one test. What no contract allows fails the test.
func stand(t testing.TB, change ...func(*controlfake.Options)) *controlfake.Stand {
	t.Helper()
	o := controlfake.Options{
		Provider: controlfake.E2B, Dir: t.TempDir(), APIKey: apiKey, Domain: "sandbox.test", Templates: []string{"base"},
		Violation: func(text string) { t.Errorf("violation: %s", text) },
	}
	probe, err := envdfake.New(t.TempDir(), envdfake.Options{})
	if errors.Is(err, envdfake.ErrUnable) && os.Getenv("CAISSON_CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Close()
	for _, f := range change {
		f(&o)
	}
	s, err := controlfake.Listen(o, "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// config is one for a stand, with more members added.
func config(s *controlfake.Stand, more map[string]any) json.RawMessage {
	all := map[string]any{
		"api_key": apiKey, "template_id": "base", "api_url": s.API, "proxy_url": s.GatewayURL, "sandbox_domain": "sandbox.test", "allow_private": true,
	}
	for k, v := range more {
		all[k] = v
	}
	text, _ := json.Marshal(all)
	return text
}

// TestConformance runs the kit over the boundary that hosts use: a subprocess.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Probe:     backendtest.Python("python3"),
		BadConfig: json.RawMessage(`{"template_id":"base"}`),
		Patience:  2 * time.Minute,
		ShortRun:  4 * time.Second,
		New: func(t *testing.T) (backend.Backend, json.RawMessage) {
			s := stand(t, func(o *controlfake.Options) { o.PageSize = 3 })
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			p, err := process.Start(t.Context(), process.Spec{Name: name, Path: exe, Env: []string{backend.EnvData + "=" + t.TempDir()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return p.Backend(), config(s, nil)
		},
	})
}
