package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Queue is how a queue of runs is at one moment.
type Queue struct {
	Running, Waiting, Places, Tenants int
	// Memory and MemoryBudget are bytes; a budget of 0 is none.
	Memory, MemoryBudget int64
	// Principals is how many the rate limits remember.
	Principals int
	// Programs is how many live that may call tools, Suspended how many of them wait
	// for their callers to answer.
	Programs, Suspended int
}

// Plugin is how one plugin is at one moment. Counts are since it was loaded or
// started by this process.
type Plugin struct {
	Name, Kind, Version, State string
	Restarts                   int
	LogDropped, InFlight       int64
	Generations                int
	// Module is set for modules that are loaded.
	Module *Module
}

// Module is what a loaded module has done.
type Module struct {
	Calls, Discards, Refills, Waits uint64
	// Fuel is in units.
	Fuel, FuelHigh uint64
	// Failures counts failed calls by reason.
	Failures map[string]uint64
	// Waited is in seconds, MemoryHigh in bytes.
	Waited          float64
	MemoryHigh      int64
	Instances, Idle int
}

// States that a plugin can be in, as caisson_plugin_state has them.
var states = []string{"unused", "skipped", "starting", "ready", "degraded", "backoff", "quarantined", "failed", "draining", "stopped", "error"}

// sources are asked when somebody reads the metrics.
type sources struct {
	descs map[string]*prometheus.Desc
	kinds map[string]prometheus.ValueType

	mu      sync.Mutex
	next    int
	queues  map[int]func() Queue
	plugins map[int]func() []Plugin
}

func newSources() *sources {
	return &sources{
		descs: make(map[string]*prometheus.Desc), kinds: make(map[string]prometheus.ValueType),
		queues: make(map[int]func() Queue), plugins: make(map[int]func() []Plugin),
	}
}

// AddQueue has f asked whenever metrics are read, until remove. Several are summed.
func (t *Telemetry) AddQueue(f func() Queue) (remove func()) {
	if t == nil {
		return func() {}
	}
	return add(t.sources, t.sources.queues, f)
}

// AddPlugins has f asked whenever metrics are read, until remove.
func (t *Telemetry) AddPlugins(f func() []Plugin) (remove func()) {
	if t == nil {
		return func() {}
	}
	return add(t.sources, t.sources.plugins, f)
}

func add[F any](s *sources, to map[int]F, f F) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	n := s.next
	to[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(to, n)
	}
}

func (s *sources) describe(t *Telemetry) {
	gauge := func(name, help string, labels ...string) {
		t.note(name, "gauge", help, labels)
		s.descs[name], s.kinds[name] = prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue
	}
	counter := func(name, help string, labels ...string) {
		t.note(name, "counter", help, labels)
		s.descs[name], s.kinds[name] = prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue
	}
	gauge("caisson_queue_running", "Runs under way.")
	gauge("caisson_queue_waiting", "Runs that wait for their turn.")
	gauge("caisson_queue_places", "Places that are taken, by runs whose request or answer is on its way too.")
	gauge("caisson_queue_tenants", "Tenants that have a place.")
	gauge("caisson_memory_admitted_bytes", "Memory that the runs under way on this machine declared, and programs that wait for their callers.")
	gauge("caisson_memory_budget_bytes", "What they may declare together; 0 is no bound.")
	gauge("caisson_programs", "Programs that may call tools and have not ended.")
	gauge("caisson_programs_suspended", "Those of them that wait for their caller to answer their calls.")
	gauge("caisson_rate_principals", "Principals that the rate limits remember.")
	gauge("caisson_plugin_state", "1 for the state that a plugin is in, 0 for the others.", "plugin", "state")
	gauge("caisson_plugin_info", "1, with what a plugin is.", "plugin", "kind", "version")
	gauge("caisson_plugin_in_flight", "Calls under way, of all generations.", "plugin")
	gauge("caisson_plugin_generations", "Generations that still have calls, the one in service included.", "plugin")
	counter("caisson_plugin_restarts_total", "Starts of a plugin's process after its first.", "plugin")
	counter("caisson_plugin_log_dropped_total", "Lines of a plugin's process that were dropped because it logs too much.", "plugin")
	counter("caisson_module_calls_total", "Calls of a module.", "plugin")
	counter("caisson_module_failures_total", "Failed calls of a module, by reason; unreadable is an answer that was not what was asked for.", "plugin", "reason")
	counter("caisson_module_discards_total", "Instances of a module that a failed call cost.", "plugin")
	counter("caisson_module_refills_total", "Instances made in their place.", "plugin")
	counter("caisson_module_waits_total", "Calls that waited for an instance.", "plugin")
	counter("caisson_module_wait_seconds_total", "Time that they waited.", "plugin")
	counter("caisson_module_fuel_total", "Fuel that all calls used, in units.", "plugin")
	gauge("caisson_module_fuel_high", "The most fuel that one call used, in units.", "plugin")
	gauge("caisson_module_memory_high_bytes", "The most memory that an instance had.", "plugin")
	gauge("caisson_module_instances", "Size of a module's pool.", "plugin")
	gauge("caisson_module_idle", "Instances that wait for a call.", "plugin")
}

// Describe implements prometheus.Collector.
func (s *sources) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *sources) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	var queues []func() Queue
	for _, f := range s.queues {
		queues = append(queues, f)
	}
	var plugins []func() []Plugin
	for _, f := range s.plugins {
		plugins = append(plugins, f)
	}
	s.mu.Unlock()

	send := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(s.descs[name], s.kinds[name], v, labels...)
	}
	var q Queue
	for _, f := range queues {
		n := f()
		q.Running, q.Waiting, q.Places, q.Tenants = q.Running+n.Running, q.Waiting+n.Waiting, q.Places+n.Places, q.Tenants+n.Tenants
		q.Memory, q.MemoryBudget, q.Principals = q.Memory+n.Memory, q.MemoryBudget+n.MemoryBudget, q.Principals+n.Principals
		q.Programs, q.Suspended = q.Programs+n.Programs, q.Suspended+n.Suspended
	}
	send("caisson_queue_running", float64(q.Running))
	send("caisson_queue_waiting", float64(q.Waiting))
	send("caisson_queue_places", float64(q.Places))
	send("caisson_queue_tenants", float64(q.Tenants))
	send("caisson_memory_admitted_bytes", float64(q.Memory))
	send("caisson_memory_budget_bytes", float64(q.MemoryBudget))
	send("caisson_programs", float64(q.Programs))
	send("caisson_programs_suspended", float64(q.Suspended))
	send("caisson_rate_principals", float64(q.Principals))
	seen := make(map[string]bool) // two hosts of one program may have a plugin each
	for _, f := range plugins {
		for _, p := range f() {
			if !seen[p.Name] {
				seen[p.Name] = true
				p.send(send)
			}
		}
	}
}

func (p *Plugin) send(send func(name string, v float64, labels ...string)) {
	for _, s := range states {
		is := 0.0
		if s == p.State {
			is = 1
		}
		send("caisson_plugin_state", is, p.Name, s)
	}
	send("caisson_plugin_info", 1, p.Name, p.Kind, p.Version)
	if m := p.Module; m != nil {
		m.send(p.Name, send)
		return
	}
	send("caisson_plugin_restarts_total", float64(p.Restarts), p.Name)
	send("caisson_plugin_log_dropped_total", float64(p.LogDropped), p.Name)
	send("caisson_plugin_in_flight", float64(p.InFlight), p.Name)
	send("caisson_plugin_generations", float64(p.Generations), p.Name)
}

func (m *Module) send(name string, send func(name string, v float64, labels ...string)) {
	send("caisson_module_calls_total", float64(m.Calls), name)
	for reason, n := range m.Failures {
		send("caisson_module_failures_total", float64(n), name, reason)
	}
	send("caisson_module_discards_total", float64(m.Discards), name)
	send("caisson_module_refills_total", float64(m.Refills), name)
	send("caisson_module_waits_total", float64(m.Waits), name)
	send("caisson_module_wait_seconds_total", m.Waited, name)
	send("caisson_module_fuel_total", float64(m.Fuel), name)
	send("caisson_module_fuel_high", float64(m.FuelHigh), name)
	send("caisson_module_memory_high_bytes", float64(m.MemoryHigh), name)
	send("caisson_module_instances", float64(m.Instances), name)
	send("caisson_module_idle", float64(m.Idle), name)
}
