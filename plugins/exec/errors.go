package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/peer"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/caisson-run/caisson/sdk/backend"
)

// errCanceled: the caller went away, so nobody reads an answer.
var errCanceled = errors.New("the caller went away")

// statusGone is what the log says of such a request (nginx's number for it).
const statusGone = 499

func refuse(status int, code, message string) *host.HTTPError {
	return &host.HTTPError{Status: status, Code: code, Message: message}
}

// rateLimited is a 429 in the words that clients parse (docs/wire.md).
func rateLimited(message string, after time.Duration, cause error) *host.HTTPError {
	return &host.HTTPError{
		Status: http.StatusTooManyRequests, Code: codeRateLimited, Message: message,
		RetryAfter: max(after, time.Second), Cause: cause,
	}
}

const (
	codeRateLimited      = response.CodeRateLimited
	codeQuota            = response.CodeQuota
	codeUnsupported      = "unsupported_capability"
	codeProfile          = response.CodeProfile
	codeWorkspace        = response.CodeWorkspace
	codeTimeout          = response.CodeTimeout
	codePaused           = "session_paused"
	codeInsufficient     = response.CodeInsufficient
	codeCap              = response.CodeCap
	codeBalance          = response.CodeBalance
	codeForbidden        = response.CodeForbidden
	fileNotFound         = "File not found"
	sandboxFull          = "the session holds as many bytes or files as it may: remove some, or use another session"
	sizeExceeded         = "File size limit exceeded"
	codeSandboxDown      = "sandbox_unavailable"
	codeInvalidFile      = "invalid_file"
	codeFull             = "sandbox_full"
	codeNotConfigured    = "not_configured"
	defaultRetry         = 5 * time.Second
	unavailableRetryText = "the sandbox backend cannot be reached now"
)

// asRefusal turns any error of a request into what its caller may see. What it
// does not know is an internal error, and says no more than that.
func asRefusal(err error) *host.HTTPError {
	if he, ok := errors.AsType[*host.HTTPError](err); ok {
		return he
	}
	if le, ok := errors.AsType[*host.LanguageError](err); ok {
		return languageRefusal(le)
	}
	if pe, ok := errors.AsType[*host.PlanError](err); ok {
		return planRefusal(pe)
	}
	if pe, ok := errors.AsType[*host.PolicyError](err); ok {
		code := pe.Code
		if code == "" {
			code = "denied"
		}
		return &host.HTTPError{Status: http.StatusForbidden, Code: code, Message: pe.Reason, Cause: pe}
	}
	if full, ok := errors.AsType[*queue.FullError](err); ok {
		return rateLimited("too many runs at once", time.Duration(full.Places/max(1, full.Running))*time.Second, err)
	}
	if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok {
		return &host.HTTPError{
			Status: http.StatusTooManyRequests, Code: codeQuota, RetryAfter: time.Minute, Cause: err,
			Message: fmt.Sprintf("uploads are limited to %d files and %d MiB in all; delete some, or wait until unused ones expire",
				exceeded.Limit.Files, exceeded.Limit.Bytes>>20),
		}
	}
	status, code, message := http.StatusInternalServerError, "internal", "internal error"
	switch {
	case errors.Is(err, errCanceled), errors.Is(err, context.Canceled):
		status, code, message = http.StatusServiceUnavailable, "canceled", "the request was cut short"
	case errors.Is(err, host.ErrInsufficient):
		status, code, message = http.StatusPaymentRequired, codeInsufficient, "insufficient balance"
	case errors.Is(err, host.ErrCap):
		status, code, message = http.StatusPaymentRequired, codeCap, "spending cap reached"
	case errors.Is(err, host.ErrUnavailable):
		status, code, message = http.StatusServiceUnavailable, codeBalance, "the balance cannot be established now"
	case errors.Is(err, queue.ErrClosed):
		status, code, message = http.StatusServiceUnavailable, "stopping", "the interpreter is stopping"
	case errors.Is(err, session.ErrBusy):
		return rateLimited("too many runs wait for this session", defaultRetry, err)
	case errors.Is(err, peer.ErrForged):
		status, code, message = http.StatusForbidden, codeForbidden, "this request does not come from where it says"
	case errors.Is(err, peer.ErrUnknownNode), errors.Is(err, peer.ErrLoop):
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: "the machine that has this session cannot be found", RetryAfter: defaultRetry, Cause: err,
		}
	case errors.Is(err, binding.ErrLockBusy):
		return rateLimited("the session is being made", defaultRetry, err)
	case errors.Is(err, binding.ErrUnavailable), errors.Is(err, binding.ErrOwnershipLost):
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: "sessions cannot be reached now", RetryAfter: storeRetry(err), Cause: err,
		}
	case errors.Is(err, session.ErrNotFound):
		status, code, message = http.StatusNotFound, "not_found", "session not found"
	case errors.Is(err, session.ErrPaused):
		status, code, message = http.StatusConflict, codePaused, "the session is paused; a run wakes it"
	case errors.Is(err, session.ErrConfigCordoned):
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: "the sandbox configuration is being changed", RetryAfter: defaultRetry, Cause: err,
		}
	case errors.Is(err, session.ErrConfigNotFound):
		status, code, message = http.StatusServiceUnavailable, codeSandboxDown, "the sandbox configuration does not exist"
	case isBackend(err) || errors.Is(err, context.DeadlineExceeded):
		return backendRefusal(err)
	}
	return &host.HTTPError{Status: status, Code: code, Message: message, Cause: err}
}

// storeRetry is when the session store may answer again: it says so itself where it can.
func storeRetry(err error) time.Duration {
	if e, ok := errors.AsType[*binding.Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return defaultRetry
}

func isBackend(err error) bool {
	_, ok := errors.AsType[*backend.Error](err)
	return ok
}

// backendRefusal speaks for a backend: its own messages are for operators.
func backendRefusal(err error) *host.HTTPError {
	var after time.Duration
	if be, ok := errors.AsType[*backend.Error](err); ok {
		after = be.RetryAfter
	}
	out := &host.HTTPError{Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: unavailableRetryText, RetryAfter: after, Cause: err}
	switch backend.KindOf(err) {
	case backend.KindCapacity:
		if backend.Full(err) { // waiting does not help, so nothing is said of when
			return &host.HTTPError{Status: http.StatusRequestEntityTooLarge, Code: codeFull, Message: sandboxFull, Cause: err}
		}
		if after == 0 {
			after = defaultRetry
		}
		message := "no sandbox is free"
		if be, ok := errors.AsType[*backend.Error](err); ok && be.Subject == backend.SubjectRun {
			message = "the interpreter is busy or being prepared; try again in a moment"
		}
		return rateLimited(message, after, err)
	case backend.KindTimeout:
		out.Status, out.Code, out.Message = http.StatusGatewayTimeout, codeTimeout, "the sandbox did not answer in time"
	case backend.KindInvalidRequest:
		out.Status, out.Code, out.Message = http.StatusBadRequest, "invalid_request", "the sandbox cannot carry out this request"
	case backend.KindUnsupported:
		out.Status, out.Code, out.Message = http.StatusNotImplemented, codeUnsupported, "this sandbox cannot do that"
	case backend.KindConflict:
		out.Status, out.Code, out.Message = http.StatusConflict, "conflict", "the sandbox is busy with something else"
	case backend.KindInternal:
		out.Status, out.Code, out.Message = http.StatusInternalServerError, "internal", "internal error"
	}
	return out
}

// planRefusal: the caller answers for the arguments, the operator for the table.
func planRefusal(e *host.PlanError) *host.HTTPError {
	switch {
	case e.Refused != "":
		return &host.HTTPError{Status: http.StatusBadRequest, Code: "invalid_request", Message: "args: " + e.Refused, Cause: e}
	case e.Again:
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: "the run cannot be planned now",
			RetryAfter: defaultRetry, Cause: e,
		}
	}
	return &host.HTTPError{Status: http.StatusInternalServerError, Code: "internal", Message: "internal error", Cause: e}
}

func languageRefusal(e *host.LanguageError) *host.HTTPError {
	message := "Unsupported language: " + names.Show(e.Language)
	if e.Missing != "" {
		message = "Language " + names.Show(e.Language) + " cannot run here"
	}
	if e.Missing != "" && len(e.Offered) == 0 {
		// Nothing at all can run: that is no property of the request.
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: codeSandboxDown, Message: "no interpreter is available now",
			RetryAfter: defaultRetry, Cause: e,
		}
	}
	if len(e.Offered) > 0 {
		message += ". Supported: " + strings.Join(e.Offered, ", ")
	}
	return refuse(http.StatusBadRequest, "unsupported_language", message)
}
