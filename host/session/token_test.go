package session_test

import (
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// A token that the provider tells once outlives the plugin, in the binding. Where that
// is lost too, the sandbox is locked and not lost: the binding is kept, and nothing is
// made or deleted.
func TestTokenToldOnce(t *testing.T) {
	for name, caps := range map[string][]backend.Capability{"named": named, "nameless": nameless} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(slices.Clone(caps), backend.CapTokenOnce, backend.CapTerminals))
			m := w.manager()
			mustExec(t, m, "s")
			sb := w.only()
			w.account.Restart()
			mustExec(t, m, "s")
			w.account.Restart()
			if term, err := m.Terminal(t.Context(), "s", backend.TerminalSpec{}, true); err != nil {
				t.Errorf("a terminal, after a restart: %v", err)
			} else {
				_ = term.Close()
			}
			// The store alone is lost: the plugin knows it and tells the new binding.
			w.reset()
			m = w.manager()
			mustExec(t, m, "s")
			w.account.Restart()
			mustExec(t, m, "s")
			// Both are lost.
			w.reset()
			w.account.Restart()
			m = w.manager()
			for range 2 {
				if _, err := m.Exec(t.Context(), "s", pwd); backend.KindOf(err) != backend.KindAuthentication {
					t.Errorf("without a token: %v, want authentication", err)
				}
			}
			if got := bound(t, m, "s"); got != sb.ID || w.only().ID != sb.ID || len(w.account.Made()) != 1 {
				t.Errorf("bound to %q, sandboxes %v; want %q alone", got, w.account.Live(), sb.ID)
			}
			if err := m.Running(t.Context(), "s"); err != nil {
				t.Errorf("Running: %v", err)
			}
		})
	}
}
