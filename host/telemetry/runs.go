package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of a run.
const (
	// RunCompleted: there was a result, whatever the program did.
	RunCompleted = "completed"
	// RunRefused: it was not let in, or not paid for.
	RunRefused = "refused"
	// RunCanceled: the caller went away.
	RunCanceled = "canceled"
	// RunFailed: it could not be carried out.
	RunFailed = "failed"
)

// Run is one run that is over.
type Run struct {
	// Language is the id of the language table, empty where it was not found out.
	Language string
	// Outcome is one of the words above.
	Outcome string
	// Stop is why the program ended (backend.StopReason), empty where it did not
	// start.
	Stop string
	// Wall is how long the program ran, CPU what it used of processors.
	Wall, CPU time.Duration
	// BytesIn and BytesOut are those of host.Usage, PeakMemory is in bytes.
	BytesIn, BytesOut, PeakMemory int64
}

type runMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	cpu      *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	memory   *prometheus.HistogramVec
	phases   map[Phase]prometheus.Observer
	holds    prometheus.Gauge
	charges  *prometheus.CounterVec
	sessions *prometheus.CounterVec
	swept    *prometheus.CounterVec
	seen     prometheus.Gauge
	language few
}

func newRunMetrics(t *Telemetry) *runMetrics {
	m := &runMetrics{
		total:    t.counter("caisson_runs_total", "Runs that are over, refused ones included.", "language", "outcome", "stop"),
		duration: t.histogram("caisson_run_duration_seconds", "Time that programs ran.", longBuckets, "language"),
		cpu:      t.counter("caisson_run_cpu_seconds_total", "Processor time that programs used.", "language"),
		bytes:    t.counter("caisson_run_bytes_total", "Bytes of inputs (in), and of output and changed files (out).", "direction"),
		memory: t.histogram("caisson_run_memory_bytes", "The most memory that a program had, where its backend says.",
			prometheus.ExponentialBuckets(1<<20, 2, 12), "language"),
		holds:    t.gauge("caisson_holds", "Charges of runs that are reserved and not yet debited or released.").WithLabelValues(),
		charges:  t.counter("caisson_charges_total", "Reservations of money by what became of them.", "result"),
		sessions: t.counter("caisson_sessions_created_total", "Sessions that were made, by what for.", "origin"),
		swept:    t.counter("caisson_sessions_swept_total", "Sessions and sandboxes that sweeps ended or failed to end.", "result"),
		seen:     t.gauge("caisson_sessions", "Live sandboxes of the deployment as the last sweep by this process counted them.").WithLabelValues(),
		language: few{most: 64},
		phases:   make(map[Phase]prometheus.Observer),
	}
	phase := t.histogram("caisson_phase_seconds", "Time that requests spent in one phase of the way to their result.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30, 300}, "phase")
	for _, p := range phases {
		m.phases[p] = phase.WithLabelValues(string(p))
	}
	return m
}

// none stands for what there is not.
const none = "none"

// RunEnded is told of every run once.
func (t *Telemetry) RunEnded(r Run) {
	if t == nil {
		return
	}
	m, lang := t.runs, none
	if r.Language != "" {
		lang = m.language.value(r.Language)
	}
	if r.Stop == "" {
		m.total.WithLabelValues(lang, r.Outcome, none).Inc()
		return
	}
	m.total.WithLabelValues(lang, r.Outcome, stopName(r.Stop)).Inc()
	m.duration.WithLabelValues(lang).Observe(r.Wall.Seconds())
	m.cpu.WithLabelValues(lang).Add(max(0, r.CPU.Seconds()))
	m.bytes.WithLabelValues("in").Add(float64(max(0, r.BytesIn)))
	m.bytes.WithLabelValues("out").Add(float64(max(0, r.BytesOut)))
	if r.PeakMemory > 0 {
		m.memory.WithLabelValues(lang).Observe(float64(r.PeakMemory))
	}
}

func stopName(s string) string {
	switch s {
	case "exit", "timeout", "cpu", "memory", "disk", "output", "canceled", "lost":
		return s
	}
	return other
}

// What becomes of a reservation.
const (
	ChargeRefused  = "refused"
	ChargeDebited  = "debited"
	ChargeReleased = "released"
	ChargeFailed   = "failed"
)

// Reserved counts a charge as held. Settled follows.
func (t *Telemetry) Reserved() {
	if t != nil {
		t.runs.holds.Inc()
	}
}

// Settled counts what became of a reservation; a refused one was never held.
func (t *Telemetry) Settled(result string) {
	if t == nil {
		return
	}
	t.runs.charges.WithLabelValues(result).Inc()
	if result != ChargeRefused {
		t.runs.holds.Dec()
	}
}

// SessionCreated counts a session. origin is one of the host's words.
func (t *Telemetry) SessionCreated(origin string) {
	if t != nil {
		t.runs.sessions.WithLabelValues(origin).Inc()
	}
}

// Swept is told what a sweep counted.
func (t *Telemetry) Swept(seen, ended, failed int) {
	if t == nil {
		return
	}
	t.runs.seen.Set(float64(seen))
	t.runs.swept.WithLabelValues("ended").Add(float64(ended))
	t.runs.swept.WithLabelValues(ChargeFailed).Add(float64(failed))
}
