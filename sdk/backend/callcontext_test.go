package backend

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// told remembers what its calls were told of their request.
type told struct {
	Backend
	id   string
	span trace.SpanContext
}

func (b *told) Info(context.Context) (Info, error) { return Info{}, nil }

func (b *told) Health(ctx context.Context) (Health, error) {
	b.id, b.span = RequestID(ctx), trace.SpanContextFromContext(ctx)
	return Health{Ready: true}, nil
}

func (b *told) List(ctx context.Context, _ ListFilter) ([]Sandbox, error) {
	b.id, b.span = RequestID(ctx), trace.SpanContextFromContext(ctx)
	return nil, nil
}

// The id of a request and its trace reach the plugin, with calls and with streams.
func TestRequestsCross(t *testing.T) {
	b := &told{}
	c := serveBackend(t, b)
	traceID, _ := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	spanID, _ := trace.SpanIDFromHex("b7ad6b7169203331")
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled})
	for name, x := range map[string]struct {
		ctx  context.Context
		id   string
		span trace.SpanContext
	}{
		"nothing":          {ctx: t.Context()},
		"an id":            {ctx: WithRequestID(t.Context(), "req-1"), id: "req-1"},
		"a trace":          {ctx: trace.ContextWithSpanContext(t.Context(), span), span: span},
		"both":             {ctx: WithRequestID(trace.ContextWithSpanContext(t.Context(), span), "r2"), id: "r2", span: span},
		"no header's text": {ctx: WithRequestID(t.Context(), "a\nb")},
		"no ASCII":         {ctx: WithRequestID(t.Context(), "ü")},
		"too long":         {ctx: WithRequestID(t.Context(), strings.Repeat("x", 129))},
	} {
		for call, f := range map[string]func() error{
			"unary":  func() error { _, err := c.Health(x.ctx); return err },
			"stream": func() error { _, err := c.List(x.ctx, ListFilter{Config: "a"}); return err },
		} {
			b.id, b.span = "unset", trace.SpanContext{}
			if err := f(); err != nil {
				t.Fatalf("%s, %s: %v", name, call, err)
			}
			if b.id != x.id || !b.span.TraceID().IsValid() != !x.span.IsValid() || b.span.TraceID() != x.span.TraceID() || b.span.SpanID() != x.span.SpanID() {
				t.Errorf("%s, %s: the backend has id %q and trace %s", name, call, b.id, b.span.TraceID())
			}
		}
	}
}

// A call that serves no request costs nothing more.
func TestOutgoingAllocations(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { outgoing(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
