package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestOff(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":  {},
		"disabled": {envDisabled: "true", envEndpoint: "http://127.0.0.1:1"},
		"none":     {envExporter: "none", envEndpoint: "http://127.0.0.1:1"},
		"blank":    {envEndpoint: " "},
	} {
		if p, err := Open(t.Context(), lookup(env), "v", hclog.NewNullLogger()); p != nil || err != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, env := range map[string]map[string]string{
		envExporter: {envExporter: "jaeger"},
		envProtocol: {envExporter: "otlp", envProtocol: "http/json"},
	} {
		if _, err := Open(t.Context(), lookup(env), "v", hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", env, err)
		}
	}
}

// What is made arrives at a collector, over HTTP as the variables say.
func TestSends(t *testing.T) {
	got := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + r.Header.Get("X-Auth") + " " + string(b)
	}))
	defer s.Close()
	// The exporter reads the process's own.
	t.Setenv(envEndpoint, s.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Auth=yes")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	p, err := Open(t.Context(), lookup(map[string]string{envEndpoint: s.URL}), "v9", hclog.NewNullLogger())
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	_, span := p.Tracer("x").Start(t.Context(), "a-span")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	sent := <-got
	for _, want := range []string{"/v1/traces yes ", "a-span", "caisson", "v9", "deployment.environment"} {
		if !strings.Contains(sent, want) {
			t.Errorf("what was sent lacks %q", want)
		}
	}
}

// A collector that is not there stops nothing.
func TestNobodyListens(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Setenv(envEndpoint, "http://127.0.0.1:1")
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
		p, err := Open(t.Context(), lookup(map[string]string{envEndpoint: "http://127.0.0.1:1", envProtocol: protocol}), "v", hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer("x").Start(t.Context(), "a-span")
		span.End()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_ = p.Shutdown(ctx)
		cancel()
	}
}
