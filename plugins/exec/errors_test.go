package exec

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
)

// TestStoreRetry: a session store that says when to ask again is quoted, one that does
// not gets the usual answer.
func TestStoreRetry(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"says when":        {&binding.Error{Op: "state", Reason: binding.Slow, RetryAfter: 30 * time.Second}, 30 * time.Second},
		"says when, below": {fmt.Errorf("%w: %w", binding.ErrOwnershipLost, &binding.Error{Op: "create", Reason: binding.Down, RetryAfter: time.Second}), time.Second},
		"says nothing":     {&binding.Error{Op: "state", Reason: binding.Refused}, defaultRetry},
		"lost":             {binding.ErrOwnershipLost, defaultRetry},
		"cordoned":         {session.ErrConfigCordoned, defaultRetry},
	} {
		if got := asRefusal(fmt.Errorf("run: %w", c.err)); got.Status != http.StatusServiceUnavailable || got.RetryAfter != c.want {
			t.Errorf("%s: status %d, retry after %v; want 503, %v", name, got.Status, got.RetryAfter, c.want)
		}
	}
}
