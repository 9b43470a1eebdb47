package session_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
	"pgregory.net/rapid"
)

// second adds a sandbox of a session beside the one in use, as a creation leaves behind
// that was lost sight of: nobody worked in it since the other was worked in. It may have
// been made before the other or after it.
func (m *model) second(t *rapid.T, k binding.Key) bool {
	m.mu.Lock()
	used := m.used[k]
	m.mu.Unlock()
	sb, ok := m.at(used)
	if !ok || slices.Contains(m.account.Caps, backend.CapNames) {
		return false
	}
	made := sb.Created.Add(-time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds older")) * time.Second)
	if gap := sb.LastActive.Sub(sb.Created); gap > time.Minute && rapid.Bool().Draw(t, "newer") {
		made = sb.LastActive.Add(-30 * time.Second)
	}
	m.planted++
	sb.ID, sb.Created = fmt.Sprintf("planted-%d", m.planted), made
	if !sb.LastActive.IsZero() {
		sb.LastActive = made
	}
	m.account.Put(sb)
	return true
}

// However often the store is emptied and whatever else carries a session's metadata, its
// work goes on in the sandbox that it was in, and that is never deleted.
func TestTheSandboxInUseIsAdopted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, planted{})
		defer func() {
			for _, s := range m.stores {
				_ = s.Close()
			}
		}()
		k := rapid.SampledFrom(sessionsOfModel).Draw(t, "session")
		for range rapid.IntRange(1, 5).Draw(t, "losses") {
			for range rapid.IntRange(1, 3).Draw(t, "uses") {
				m.clock.Advance(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
				if err := m.use(rapid.IntRange(0, 1).Draw(t, "replica"), k); err != nil {
					t.Fatal(err)
				}
			}
			for range rapid.IntRange(0, 2).Draw(t, "others") {
				m.second(t, k)
			}
			if rapid.Bool().Draw(t, "lost") {
				m.empty()
			}
			m.clock.Advance(time.Duration(rapid.IntRange(0, 30).Draw(t, "minutes")) * time.Minute)
			if rapid.Bool().Draw(t, "swept") {
				if _, err := m.reaper(1).Sweep(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			m.check(t)
		}
		m.settle(t)
	})
}
