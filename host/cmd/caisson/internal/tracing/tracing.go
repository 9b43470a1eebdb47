// Package tracing sends the server's spans to a collector, as the standard variables
// of OpenTelemetry say. Without them nothing is made and nothing is sent.
package tracing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Variables that are looked at here; the exporters and the library read the others
// (OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _CERTIFICATE, OTEL_TRACES_SAMPLER, OTEL_BSP_…,
// OTEL_RESOURCE_ATTRIBUTES).
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

const serviceName = "caisson"

// Open returns a provider of tracers that sends to a collector over OTLP, or nil
// where the variables do not ask for one: OTEL_TRACES_EXPORTER is otlp, or one of the
// endpoints is set and it is not none. The caller shuts it down. Nothing is connected
// to yet, so a collector that is not there is a line in the log and no error. sent is
// told of every batch: of how many spans, and why they are lost if they are.
func Open(ctx context.Context, lookup func(string) (string, bool), version string, log hclog.Logger, sent func(spans int, err error)) (*trace.TracerProvider, error) {
	get := func(names ...string) string {
		for _, n := range names {
			if v, _ := lookup(n); strings.TrimSpace(v) != "" {
				return strings.ToLower(strings.TrimSpace(v))
			}
		}
		return ""
	}
	exporter := get(envExporter)
	switch {
	case get(envDisabled) == "true", exporter == "none":
		return nil, nil
	case exporter == "" && get(envTracesEndpoint, envEndpoint) == "":
		return nil, nil
	case exporter != "" && exporter != "otlp":
		return nil, fmt.Errorf("%s: must be otlp or none", envExporter)
	}
	var client otlptrace.Client
	switch get(envTracesProtocol, envProtocol) {
	case "", "http/protobuf":
		client = otlptracehttp.NewClient()
	case "grpc":
		client = otlptracegrpc.NewClient()
	default:
		return nil, fmt.Errorf("%s: must be http/protobuf or grpc", envProtocol)
	}
	exp, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("spans: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", serviceName), attribute.String("service.version", version)),
		resource.WithFromEnv(), // which may say otherwise
		resource.WithTelemetrySDK(),
	)
	if err != nil {
		log.Warn("a part of OTEL_RESOURCE_ATTRIBUTES was not understood", "error", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(&observed{SpanExporter: exp, log: log, sent: sent, now: time.Now}), trace.WithResource(res)), nil
}

// observed says how it goes with an exporter, which else would tell a global handler.
type observed struct {
	trace.SpanExporter
	log  hclog.Logger
	sent func(spans int, err error)
	now  func() time.Time

	// ExportSpans, which alone uses these, is never called while it runs.
	failing bool
	lost    int // since it was last told
	told    time.Time
}

// tellEvery is the time between two lines about a collector that takes nothing.
const tellEvery = time.Minute

func (o *observed) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := o.SpanExporter.ExportSpans(ctx, spans)
	o.sent(len(spans), err)
	switch {
	case err != nil:
		o.lost += len(spans)
		if now := o.now(); !o.failing || now.Sub(o.told) >= tellEvery {
			o.log.Warn("spans could not be sent and are lost", "spans", o.lost, "error", err)
			o.failing, o.lost, o.told = true, 0, now
		}
	case o.failing:
		o.log.Info("spans are sent again", "lost", o.lost)
		o.failing, o.lost = false, 0
	}
	return nil
}
