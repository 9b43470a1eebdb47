package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/runtimes/handoff"
)

// SwapUnderWay is the outcome of a swap that is being prepared or watched.
const SwapUnderWay Outcome = "under_way"

// LastSwap is the latest swap of a plugin since the host was opened. It is there for
// whoever lost the connection on which the report was to come.
type LastSwap struct {
	// At is when it came to Outcome.
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	// Reason explains every outcome but SwapDone and SwapUnderWay; of SwapDone it says
	// whether the watch was cut short.
	Reason string `json:"reason,omitempty"`
	// From and To are the versions; To is empty when none could be read.
	From PluginVersion `json:"from"`
	To   PluginVersion `json:"to,omitzero"`
}

// swaps remember the latest of each plugin. The zero value is ready, and safe for
// concurrent use.
type swaps struct {
	mu     sync.Mutex
	latest map[string]LastSwap
}

func (s *swaps) note(r SwapReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = make(map[string]LastSwap)
	}
	s.latest[r.Plugin] = LastSwap{At: time.Now(), Outcome: r.Outcome, Reason: r.Reason, From: r.From, To: r.To}
}

// of returns the latest swap of a plugin, nil when there was none.
func (s *swaps) of(plugin string) *LastSwap {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.latest[plugin]; ok {
		return &l
	}
	return nil
}

// busy is handoff.ErrSwapping with what is known of it.
func (s *swaps) busy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.latest {
		if l.Outcome == SwapUnderWay {
			return fmt.Errorf("%w, of plugin %q to %s since %s; if it is watched, caisson plugin accept %s ends that",
				handoff.ErrSwapping, name, l.To.Version, l.At.UTC().Format(time.TimeOnly), name)
		}
	}
	return handoff.ErrSwapping
}

// modulesInUse are the versions of policies and tables that serve, by name.
func (h *Host) modulesInUse() map[string]PluginStatus {
	ref, err := h.modules.Acquire()
	if err != nil {
		return nil // the host is closing
	}
	defer ref.Release()
	out := make(map[string]PluginStatus)
	for _, p := range ref.Value().parts {
		out[p.found.m.Name] = p.found.status
	}
	return out
}

// AcceptSwap ends the watch of the swap of a plugin that is under way: the version that is
// watched stays, and the host may be changed again. It is an error when none is watched.
func (h *Host) AcceptSwap(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	if l := h.swaps.of(name); l == nil || l.Outcome != SwapUnderWay {
		return fmt.Errorf("no swap of plugin %q is under way", name)
	}
	accept := h.modules.Accept
	if l := h.backends.line(name); l != nil {
		accept = l.slot.Accept
	}
	if !accept(ctx) {
		return fmt.Errorf("the swap of plugin %q is not watched: the next version is not ready yet, or the last calls of the one before are waited for", name)
	}
	return nil
}

// StopChanges ends what changes the host: no change begins any more, one that has not
// taken effect is given up, and a swap that is watched stays as it is. Calls go on.
// Close does so first; whoever waits for operators' requests to end calls it before.
func (h *Host) StopChanges() {
	h.endChanges()
	if h.modules != nil {
		h.modules.Settle()
	}
	if h.backends == nil {
		return
	}
	for _, l := range h.backends.now.Load().lines {
		l.slot.Settle()
	}
}

// changeable is an error when no change may begin.
func (h *Host) changeable() error {
	if h.changes.Err() != nil {
		return handoff.ErrClosed
	}
	return nil
}
