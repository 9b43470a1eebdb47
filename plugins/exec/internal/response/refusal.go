package response

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
)

// Codes whose refusals have a shape of their own (docs/wire.md).
const (
	CodeRateLimited  = "rate_limited"
	CodeQuota        = "upload_quota_exceeded"
	CodeProfile      = "execution_profile_mismatch"
	CodeWorkspace    = "stateful_workspace_unsupported"
	CodeTimeout      = "execution_timeout"
	CodeInsufficient = "insufficient_balance"
	CodeCap          = "spending_cap_reached"
	CodeBalance      = "balance_unavailable"
	CodeForbidden    = "forbidden"
)

// Refusal is the body of an answer that refuses. It satisfies every client: "error" is a
// word where clients look for one and otherwise a sentence (docs/wire.md).
type Refusal struct {
	Error             any    `json:"error"`
	Message           string `json:"message"`
	Status            int    `json:"status"`
	Code              string `json:"code,omitempty"`
	RetryAfterSeconds int64  `json:"retry_after_seconds,omitempty"`
	RequestID         string `json:"request_id,omitempty"`
}

// NestedError is "error" where clients look for an object.
type NestedError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Body is the body for e.
func Body(e *host.HTTPError) Refusal {
	b := Refusal{Error: e.Message, Message: e.Message, Status: e.Status, Code: e.Code}
	switch e.Code {
	case CodeInsufficient, CodeCap, CodeBalance, CodeForbidden:
		// Money is refused in the platform's own shape.
		b.Error = NestedError{Code: e.Code, Message: e.Message}
	case CodeRateLimited:
		b.Error, b.RetryAfterSeconds = e.Code, Seconds(e.RetryAfter)
	case CodeQuota, CodeProfile, CodeWorkspace, CodeTimeout:
		b.Error = e.Code
	}
	return b
}

// Seconds is d in whole seconds, rounded up.
func Seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Refuse answers a request with e.
func Refuse(w http.ResponseWriter, e *host.HTTPError) {
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(Seconds(e.RetryAfter), 10))
	}
	if e.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		challenge := e.Challenge
		if challenge == "" {
			challenge = "Bearer" // there has to be one (RFC 9110 §11.6.1)
		}
		h.Set("WWW-Authenticate", challenge)
	}
	b := Body(e)
	b.RequestID = h.Get(host.RequestIDHeader)
	JSON(w, e.Status, b)
}

// JSON answers with v, whose encoding cannot fail.
func JSON(w http.ResponseWriter, status int, v any) { Encoded(w, status, Encode(v)) }

// Encoded answers with JSON that is encoded already.
func Encoded(w http.ResponseWriter, status int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a caller that went away is not ours to report
}

// Encode is a line of JSON.
func Encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(`{"error":"internal error","message":"internal error","status":500}` + "\n")
	}
	return []byte(b.String())
}
