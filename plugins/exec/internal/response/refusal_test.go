package response

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
)

func TestRefuse(t *testing.T) {
	for name, tt := range map[string]struct {
		e                *host.HTTPError
		after, challenge string
		body             string
	}{
		"plain": {
			e:    &host.HTTPError{Status: 404, Code: "not_found", Message: "<no> file"},
			body: `{"error":"<no> file","message":"<no> file","status":404,"code":"not_found","request_id":"req-1234"}`,
		},
		"too often": {
			e:    &host.HTTPError{Status: 429, Code: CodeRateLimited, Message: "slow down", RetryAfter: 1500 * time.Millisecond},
			body: `{"error":"rate_limited","message":"slow down","status":429,"code":"rate_limited","retry_after_seconds":2,"request_id":"req-1234"}`, after: "2",
		},
		"money": {
			e:    &host.HTTPError{Status: 402, Code: CodeCap, Message: "enough"},
			body: `{"error":{"code":"spending_cap_reached","message":"enough"},"message":"enough","status":402,"code":"spending_cap_reached","request_id":"req-1234"}`,
		},
		"nobody": {
			e:    &host.HTTPError{Status: 401, Code: "unauthorized", Message: "who?", Challenge: `Basic realm="x"`},
			body: `{"error":"who?","message":"who?","status":401,"code":"unauthorized","request_id":"req-1234"}`, challenge: `Basic realm="x"`,
		},
		"nobody, of a platform without challenges": {
			e:    &host.HTTPError{Status: 401, Code: "unauthorized", Message: "who?"},
			body: `{"error":"who?","message":"who?","status":401,"code":"unauthorized","request_id":"req-1234"}`, challenge: "Bearer",
		},
	} {
		w := httptest.NewRecorder()
		w.Header().Set(host.RequestIDHeader, "req-1234")
		Refuse(w, tt.e)
		h := w.Header()
		if w.Code != tt.e.Status || strings.TrimSpace(w.Body.String()) != tt.body || h.Get("Retry-After") != tt.after || h.Get("WWW-Authenticate") != tt.challenge {
			t.Errorf("%s: %d %v %s", name, w.Code, h, w.Body)
		}
	}
}

func TestEncodeNothing(t *testing.T) {
	if got := string(Encode(make(chan int))); !strings.Contains(got, `"status":500`) {
		t.Error(got)
	}
}
