package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type pluginMetrics struct {
	calls         *prometheus.CounterVec
	latency       *prometheus.HistogramVec
	blamed        *prometheus.CounterVec
	swaps         *prometheus.CounterVec
	drain         *prometheus.HistogramVec
	decisions     *prometheus.CounterVec
	decisionTimes *prometheus.HistogramVec
	reloads       *prometheus.CounterVec
}

func newPluginMetrics(t *Telemetry) *pluginMetrics {
	return &pluginMetrics{
		calls:         t.counter("caisson_plugin_calls_total", "Calls to backend plugins that are over, by how they ended.", "plugin", "method", "code"),
		latency:       t.histogram("caisson_plugin_call_seconds", "Time of calls to backend plugins, streams included.", longBuckets, "plugin", "method"),
		blamed:        t.counter("caisson_plugin_calls_failed_total", "Calls whose end counts against the plugin.", "plugin"),
		swaps:         t.counter("caisson_plugin_swaps_total", "Swaps of plugins, by outcome: switched, refused, rolled_back.", "plugin", "outcome"),
		drain:         t.histogram("caisson_plugin_swap_drain_seconds", "Time that calls of a generation went on after it left.", longBuckets, "plugin"),
		decisions:     t.counter("caisson_policy_decisions_total", "What policies said: allow, deny, or failed; mode says what it does.", "policy", "mode", "decision"),
		decisionTimes: t.histogram("caisson_policy_seconds", "Time that policies took.", shortBuckets, "policy"),
		reloads:       t.counter("caisson_reconfigurations_total", "Changes of the configuration, by whether they took effect.", "result"),
	}
}

// PluginCall is told of every call to a backend plugin that is over. method and code
// are words of the contract.
func (t *Telemetry) PluginCall(plugin, method, code string, took time.Duration, blamed bool) {
	if t == nil {
		return
	}
	m := t.plugins
	m.calls.WithLabelValues(plugin, method, code).Inc()
	m.latency.WithLabelValues(plugin, method).Observe(took.Seconds())
	if blamed {
		m.blamed.WithLabelValues(plugin).Inc()
	}
}

// Swapped is told of every swap that was tried.
func (t *Telemetry) Swapped(e Event, drain time.Duration) {
	if t == nil {
		return
	}
	t.plugins.swaps.WithLabelValues(e.Plugin, e.Outcome).Inc()
	if drain > 0 {
		t.plugins.drain.WithLabelValues(e.Plugin).Observe(drain.Seconds())
	}
	e.Kind = EventSwap
	t.Emit(e)
}

// What a policy said.
const (
	PolicyAllow  = "allow"
	PolicyDeny   = "deny"
	PolicyFailed = "failed"
)

// PolicyAsked is told of every answer of a policy.
func (t *Telemetry) PolicyAsked(policy, mode, decision string, took time.Duration) {
	if t == nil {
		return
	}
	t.plugins.decisions.WithLabelValues(policy, mode, decision).Inc()
	t.plugins.decisionTimes.WithLabelValues(policy).Observe(took.Seconds())
}

// Reconfigured is told of every change of the configuration that was tried.
func (t *Telemetry) Reconfigured(err error) {
	if t == nil {
		return
	}
	if err != nil {
		t.plugins.reloads.WithLabelValues("refused").Inc()
		return
	}
	t.plugins.reloads.WithLabelValues("done").Inc()
}
