package admission

import (
	"net/http"
	"time"

	"github.com/caisson-run/caisson/host"
)

func errNotConfigured() *host.HTTPError {
	return &host.HTTPError{
		Status: http.StatusServiceUnavailable, Code: "not_configured",
		Message: "code execution is not configured: the deployment has neither a service key nor a token issuer",
	}
}

func unauthorized(message string, cause error) *host.HTTPError {
	return &host.HTTPError{Status: http.StatusUnauthorized, Code: "unauthorized", Message: message, Cause: cause}
}

func forbidden(message string, cause error) *host.HTTPError {
	return &host.HTTPError{Status: http.StatusForbidden, Code: "forbidden", Message: message, Cause: cause}
}

func unverifiable(retry time.Duration, cause error) *host.HTTPError {
	return &host.HTTPError{
		Status: http.StatusServiceUnavailable, Code: "auth_unavailable",
		Message:    "the token cannot be verified now: the issuer's keys are not available",
		RetryAfter: retry, Cause: cause,
	}
}
