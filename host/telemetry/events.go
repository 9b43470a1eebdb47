package telemetry

import (
	"sync"
	"time"
)

// Kinds of events.
const (
	// EventState: a plugin came into another state, From and To.
	EventState = "plugin_state"
	// EventSwap: a version was put in the place of another, or not; see Outcome.
	EventSwap = "plugin_swap"
	// EventReload: the configuration was changed, or not.
	EventReload = "reconfigured"
)

// Event is something that operators may want to hear of when it happens.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	// Plugin is the plugin's name, where it is about one.
	Plugin string `json:"plugin,omitempty"`
	// From and To are states or versions.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Outcome is one word, Cause a line for people: for operators, not for callers.
	Outcome string `json:"outcome,omitempty"`
	Cause   string `json:"cause,omitempty"`
}

// maxEvents is how many are kept.
const maxEvents = 1000

// events keeps the latest.
type events struct {
	mu   sync.Mutex
	list []Event // oldest first
}

// Emit records an event and tells Options.OnEvent.
func (t *Telemetry) Emit(e Event) {
	if t == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	t.events.mu.Lock()
	defer t.events.mu.Unlock()
	if len(t.events.list) >= maxEvents {
		t.events.list = append(t.events.list[:0], t.events.list[len(t.events.list)-maxEvents+1:]...)
	}
	t.events.list = append(t.events.list, e)
	if t.o.OnEvent != nil {
		t.o.OnEvent(e)
	}
}

// Events returns the newest n, oldest first. Up to 1000 are kept, in memory.
func (t *Telemetry) Events(n int) []Event {
	if t == nil {
		return nil
	}
	t.events.mu.Lock()
	defer t.events.mu.Unlock()
	return append([]Event(nil), t.events.list[max(0, len(t.events.list)-max(0, n)):]...)
}
