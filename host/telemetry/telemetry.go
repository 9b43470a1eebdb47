package telemetry

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options of New. The zero value measures and makes no spans.
type Options struct {
	// Tracing makes spans; nil makes none.
	Tracing trace.TracerProvider
	// TrustParent continues the trace that a request's traceparent header names.
	// Without it such a request begins a trace of its own, with a link to the other:
	// whoever is let in could else decide what is sampled.
	TrustParent bool
	// Runtime adds the metrics of the Go runtime and the process that the library
	// has (go_…, process_…). An embedding program may have them already.
	Runtime bool
	// Version is that of the program, for caisson_build_info.
	Version string
	// OnEvent is told of every event at once, one at a time. It must not block.
	OnEvent func(Event)
}

// Telemetry measures one host. It is safe for concurrent use.
type Telemetry struct {
	o         Options
	registry  *prometheus.Registry
	catalogue []Metric
	tracer    trace.Tracer
	spans     bool

	requests *requestMetrics
	runs     *runMetrics
	plugins  *pluginMetrics
	exported *prometheus.CounterVec
	sources  *sources
	events   events
}

// New returns a Telemetry that nothing was measured with yet.
func New(o Options) *Telemetry {
	t := &Telemetry{o: o, registry: prometheus.NewRegistry(), sources: newSources()}
	provider := o.Tracing
	if t.spans = provider != nil; !t.spans {
		provider = noop.NewTracerProvider()
	}
	t.tracer = provider.Tracer(scope)
	t.requests, t.runs, t.plugins = newRequestMetrics(t), newRunMetrics(t), newPluginMetrics(t)
	t.sources.describe(t)
	t.registry.MustRegister(t.sources) // descriptions are ours: a clash is a mistake in this package
	if o.Runtime {
		t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	t.exported = t.counter("caisson_spans_total", "Spans that were sent to the collector, or failed to be and are lost.", "result")
	t.gauge("caisson_build_info", "1, with the version that runs.", "version").WithLabelValues(o.Version).Set(1)
	return t
}

// scope is the name under which spans are made.
const scope = "github.com/caisson-run/caisson"

// Handler serves the metrics. Who may read them is the caller's to decide.
func (t *Telemetry) Handler() http.Handler {
	if t == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 30 * time.Second})
}

// Gatherer gives the metrics to a program that serves them with its own.
func (t *Telemetry) Gatherer() prometheus.Gatherer {
	if t == nil {
		return prometheus.Gatherers{}
	}
	return t.registry
}

// Metric describes one metric.
type Metric struct {
	Name, Type, Help string
	Labels           []string
}

// Catalogue lists every metric that New makes, by name; those of Options.Runtime are
// the library's.
func (t *Telemetry) Catalogue() []Metric {
	out := slices.Clone(t.catalogue)
	slices.SortFunc(out, func(a, b Metric) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

func (t *Telemetry) note(name, kind, help string, labels []string) {
	t.catalogue = append(t.catalogue, Metric{Name: name, Type: kind, Help: help, Labels: labels})
}

func (t *Telemetry) counter(name, help string, labels ...string) *prometheus.CounterVec {
	t.note(name, "counter", help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	t.registry.MustRegister(v)
	return v
}

func (t *Telemetry) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	t.note(name, "gauge", help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	t.registry.MustRegister(v)
	return v
}

func (t *Telemetry) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	t.note(name, "histogram", help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	t.registry.MustRegister(v)
	return v
}

// Buckets, in seconds: of what goes from a run without work to the longest one, and of
// what is mostly short.
var (
	longBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	shortBuckets = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1}
)

// few keeps the values of a label few: what comes after the first ones is "other". It
// is for values that come from plugins.
type few struct {
	most int

	mu   sync.RWMutex
	seen map[string]bool
}

const other = "other"

func (f *few) value(s string) string {
	f.mu.RLock()
	ok := f.seen[s]
	f.mu.RUnlock()
	if ok {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	if !f.seen[s] && len(f.seen) >= f.most {
		return other
	}
	f.seen[s] = true
	return s
}
