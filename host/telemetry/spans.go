package telemetry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Phase is a part of a request's way. Each is a span and a label of
// caisson_phase_seconds.
type Phase string

// The phases.
const (
	PhaseAdmission Phase = "admission"
	PhasePolicy    Phase = "policy"
	PhaseReserve   Phase = "ledger.reserve"
	PhaseStarted   Phase = "ledger.started"
	PhaseDebit     Phase = "ledger.debit"
	PhaseQueue     Phase = "queue"
	PhaseSession   Phase = "session"
	PhaseRun       Phase = "run"
)

var phases = []Phase{
	PhaseAdmission, PhasePolicy, PhaseReserve, PhaseStarted, PhaseDebit, PhaseQueue, PhaseSession, PhaseRun,
}

// SpansSent is told of spans that a collector was sent, and of those that it did not
// take.
func (t *Telemetry) SpansSent(n int, err error) {
	if t == nil {
		return
	}
	result := "sent"
	if err != nil {
		result = "failed"
	}
	t.exported.WithLabelValues(result).Add(float64(n))
}

// Span is one span, or none. The zero value is none.
type Span struct {
	span  trace.Span
	began time.Time
	phase prometheus.Observer
}

// Request begins the span of a request: a child of what the context has, else a new
// trace, linked to the one that the request names or, if that is trusted, a part of it.
func (t *Telemetry) Request(r *http.Request) (context.Context, Span) {
	ctx := r.Context()
	if t == nil || !t.spans {
		return ctx, Span{}
	}
	o := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		named := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		switch remote := trace.SpanContextFromContext(named); {
		case !remote.IsValid():
		case t.o.TrustParent:
			ctx = named
		default:
			o = append(o, trace.WithLinks(trace.Link{SpanContext: remote}))
		}
	}
	name := r.Pattern
	if name == "" {
		name = methodName(r.Method)
	}
	ctx, span := t.tracer.Start(ctx, name, o...)
	span.SetAttributes(attribute.String("http.request.method", methodName(r.Method)), attribute.String("http.route", r.Pattern))
	return ctx, Span{span: span}
}

// Phase begins a phase: its time is counted, and if ctx has a span it becomes one below
// it.
func (t *Telemetry) Phase(ctx context.Context, p Phase) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	s := Span{began: time.Now(), phase: t.runs.phases[p]}
	if t.spans && trace.SpanFromContext(ctx).IsRecording() {
		ctx, s.span = t.tracer.Start(ctx, "caisson."+string(p))
	}
	return ctx, s
}

// Exists reports whether it is one.
func (s Span) Exists() bool { return s.span != nil }

// Current is the span that ctx has, to say more about it. It must not be ended.
func (t *Telemetry) Current(ctx context.Context) Span {
	if t == nil || !t.spans {
		return Span{}
	}
	return Span{span: trace.SpanFromContext(ctx)}
}

// Text says something about a span. Neither code nor secrets nor what a caller wrote
// belongs there.
func (s Span) Text(key, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Answered says how a request was answered.
func (s Span) Answered(status int) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span, and counts the time of a phase. Of an error only that there was
// one is told: its text may hold what does not belong into a trace.
func (s Span) End(err error) {
	if s.phase != nil {
		s.phase.Observe(time.Since(s.began).Seconds())
	}
	if s.span == nil {
		return
	}
	switch {
	case errors.Is(err, context.Canceled):
		s.span.SetAttributes(attribute.Bool("caisson.canceled", true))
	case err != nil:
		s.span.SetStatus(codes.Error, "failed")
	}
	s.span.End()
}
