package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requestMetrics are those of requests over HTTP.
type requestMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	limited  *prometheus.CounterVec
	routes   few
}

func newRequestMetrics(t *Telemetry) *requestMetrics {
	return &requestMetrics{
		total: t.counter("caisson_http_requests_total",
			"Requests that were answered. status 499 is a caller that went away.", "route", "method", "status"),
		duration: t.histogram("caisson_http_request_duration_seconds",
			"Time from a request's head to the end of its answer.", longBuckets, "route"),
		inFlight: t.gauge("caisson_http_requests_in_flight", "Requests being answered.").WithLabelValues(),
		limited:  t.counter("caisson_rate_limited_total", "Requests refused with 429 because their principal sends too many, by class.", "class"),
		routes:   few{most: 64},
	}
}

// RequestBegan counts a request as in flight. Whoever calls it calls RequestEnded.
func (t *Telemetry) RequestBegan() {
	if t != nil {
		t.requests.inFlight.Inc()
	}
}

// RequestEnded is told of every answer. route is one of the entry's own, never a path
// as it came.
func (t *Telemetry) RequestEnded(route, method string, status int, took time.Duration) {
	if t == nil {
		return
	}
	m := t.requests
	m.inFlight.Dec()
	route = m.routes.value(route)
	m.total.WithLabelValues(route, methodName(method), statusName(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

// RateLimited counts a refusal. class is one of the entry's words.
func (t *Telemetry) RateLimited(class string) {
	if t != nil {
		t.requests.limited.WithLabelValues(class).Inc()
	}
}

func methodName(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return other
}

func statusName(n int) string {
	if n < 100 || n > 599 {
		return other
	}
	return strconv.Itoa(n)
}
