package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/sdk/trace"
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
		if p, err := Open(t.Context(), lookup(env), "v", hclog.NewNullLogger(), nil); p != nil || err != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, env := range map[string]map[string]string{
		envExporter: {envExporter: "jaeger"},
		envProtocol: {envExporter: "otlp", envProtocol: "http/json"},
	} {
		if _, err := Open(t.Context(), lookup(env), "v", hclog.NewNullLogger(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", env, err)
		}
	}
}

// What is made arrives at a collector, over HTTP as the variables say.
func TestSends(t *testing.T) {
	got, counted := make(chan string, 10), make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + r.Header.Get("X-Auth") + " " + string(b)
	}))
	defer s.Close()
	// The exporter reads the process's own.
	t.Setenv(envEndpoint, s.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Auth=yes")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	p, err := Open(t.Context(), lookup(map[string]string{envEndpoint: s.URL}), "v9", hclog.NewNullLogger(), func(n int, err error) { counted <- fmt.Sprint(n, err) })
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
	if n := <-counted; n != "1 <nil>" {
		t.Errorf("told of %s", n)
	}
}

// A collector that is not there stops nothing, and is told of.
func TestNobodyListens(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Setenv(envEndpoint, "http://127.0.0.1:1")
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
		var lost int
		var out strings.Builder
		log := hclog.New(&hclog.LoggerOptions{Output: &out})
		env := map[string]string{envEndpoint: "http://127.0.0.1:1", envProtocol: protocol}
		p, err := Open(t.Context(), lookup(env), "v", log, func(n int, err error) {
			if err != nil {
				lost += n
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer("x").Start(t.Context(), "a-span")
		span.End()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_ = p.Shutdown(ctx)
		cancel()
		if lost != 1 || !strings.Contains(out.String(), "[WARN]") || !strings.Contains(out.String(), "spans=1") {
			t.Errorf("%s: told of %d lost spans, logged %q", protocol, lost, &out)
		}
	}
}

// broken takes nothing.
type broken struct {
	trace.SpanExporter
	err error
}

func (b *broken) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return b.err }

// A collector that stays away is told of once a minute, with how much was lost.
func TestLossesAreToldInMeasure(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	to := &broken{err: errors.New("refused")}
	o := &observed{
		SpanExporter: to, log: hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true}),
		sent: func(int, error) {}, now: func() time.Time { return now },
	}
	for range 125 { // seconds
		if err := o.ExportSpans(t.Context(), make([]trace.ReadOnlySpan, 2)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	to.err = nil
	for range 3 {
		_ = o.ExportSpans(t.Context(), make([]trace.ReadOnlySpan, 2))
	}
	to.err = errors.New("refused")
	_ = o.ExportSpans(t.Context(), make([]trace.ReadOnlySpan, 2))
	const want = "[WARN]  spans could not be sent and are lost: spans=2 error=refused\n" +
		"[WARN]  spans could not be sent and are lost: spans=120 error=refused\n" +
		"[WARN]  spans could not be sent and are lost: spans=120 error=refused\n" +
		"[INFO]  spans are sent again: lost=8\n" +
		"[WARN]  spans could not be sent and are lost: spans=2 error=refused\n"
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", &out, want)
	}
}
