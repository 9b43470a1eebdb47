package session

import (
	"cmp"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Livelier orders sandboxes that carry one session's metadata, the one that the
// session's work is in most likely first. There is more than one where a creation was
// lost sight of, by a listing that lagged or a store that was emptied meanwhile; which
// of them the last binding named is then nowhere written down. What the provider saw
// last decides: activity, else who runs, else whose end was moved away furthest, else
// who was made last. Every replica orders them alike.
func Livelier(a, b backend.Sandbox) int {
	return cmp.Or(
		later(a.LastActive, b.LastActive),
		awake(b)-awake(a),
		later(a.Expires, b.Expires),
		later(a.Created, b.Created),
		cmp.Compare(a.ID, b.ID),
	)
}

// later puts the later time first, and one that is not known last.
func later(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return b.Compare(a)
}

func awake(sb backend.Sandbox) int {
	if sb.State == backend.StateRunning {
		return 1
	}
	return 0
}
