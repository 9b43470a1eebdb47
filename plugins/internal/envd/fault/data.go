package fault

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Data makes the error of an answer of the data plane: the gateway's, or the daemon's
// over plain HTTP. It is never proof that a sandbox is gone.
func Data(provider, op string, subject backend.Subject, r *Reply) *backend.Error {
	e := &backend.Error{
		Kind: dataKind(r), Op: op, Provider: provider, Plane: backend.PlaneData,
		Message: say(r), Status: r.Status, RetryAfter: r.RetryAfter,
	}
	// A rate limit is about no file: it would read as a disk that is full.
	if subject != backend.SubjectSandbox && r.Status != http.StatusTooManyRequests {
		e.Subject = subject
	}
	return e
}

// missing is what the daemon says of paths that are not there.
func (r *Reply) missing() bool {
	return r.Numeric && strings.HasPrefix(r.Message, "path '") && strings.Contains(r.Message, "does not exist")
}

// unknownUser is what the daemon says when the template lacks the account.
func (r *Reply) unknownUser() bool {
	return r.Says("invalid username") || r.Says("error looking up user")
}

func dataKind(r *Reply) backend.Kind {
	switch s := r.Status; {
	case s == 401 && r.unknownUser():
		return backend.KindInvalidRequest
	case s == 401, s == 403:
		return backend.KindAuthentication
	case s == 404 && r.missing():
		return backend.KindNotFound
	case s == 404 && !r.JSON && !r.Page:
		return backend.KindUnsupported // a method that this daemon lacks
	case s == 404:
		return backend.KindUnavailable // a gateway that knows no way
	case s == 405, s == 501:
		return backend.KindUnsupported
	case s == 408:
		return backend.KindTimeout
	case s == 409:
		return backend.KindConflict
	case s == 410 && !r.Page:
		return backend.KindTerminal
	case s == 410:
		return backend.KindUnavailable
	case s == 400, s == 413, s == 415, s == 416, s == 422:
		return backend.KindInvalidRequest
	case s == 429, s == 507:
		return backend.KindCapacity
	case s == 500 && r.Numeric:
		return backend.KindInternal // the daemon's own word
	case s >= 500:
		return backend.KindUnavailable
	case s < 300 && s != 0:
		return backend.KindUnavailable // somebody else answered
	}
	return backend.KindInternal
}

// NotRouted reports whether a reply says that the request never reached the daemon,
// because nothing serves the sandbox or nothing listens there yet: it may be sent
// again whatever it was.
func (r *Reply) NotRouted() bool {
	return r.Status == 502 && (r.Says("sandbox was not found") || r.Says("port is not open")) ||
		r.Status == 503 && r.RetryAfter > 0 ||
		r.Status == 404 && r.JSON && !r.Numeric || r.Status == 409 && r.Says("transition")
}

// RPC makes the error of a failed call of the daemon's protocol. A *Reply in its chain
// decides before the protocol's code does: the code would be the client's own guess.
func RPC(ctx context.Context, provider, op string, subject backend.Subject, err error) error {
	var reply *Reply
	if errors.As(err, &reply) {
		return Data(provider, op, subject, reply)
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return Transport(ctx, provider, op, backend.PlaneData, err)
	}
	if ctx.Err() != nil && (ce.Code() == connect.CodeCanceled || ce.Code() == connect.CodeDeadlineExceeded) {
		return ctx.Err()
	}
	e := &backend.Error{Kind: rpcKind(ce), Op: op, Provider: provider, Plane: backend.PlaneData}
	if subject != backend.SubjectSandbox {
		e.Subject = subject
	}
	if connect.IsWireError(ce) {
		// Errors of a failed start hold the whole command line.
		e.Message = ce.Code().String() + ": " + firstLine(ce.Message())
	} else {
		e.Message = reason(ce.Unwrap())
	}
	return e
}

// rpcKind maps the protocol's codes.
func rpcKind(err *connect.Error) backend.Kind {
	wire := connect.IsWireError(err)
	if !wire {
		// The client's own words about a stream that was cut or that is none.
		if isCut(err) {
			return backend.KindUnavailable
		}
		if isTimeout(err) {
			return backend.KindTimeout
		}
	}
	switch err.Code() {
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return backend.KindTimeout
	case connect.CodeUnavailable:
		return backend.KindUnavailable
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		if strings.Contains(err.Message(), "invalid username") {
			return backend.KindInvalidRequest
		}
		return backend.KindAuthentication
	case connect.CodeResourceExhausted:
		if !wire {
			return backend.KindInternal // our own limit on messages
		}
		return backend.KindCapacity
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return backend.KindInvalidRequest
	case connect.CodeNotFound:
		return backend.KindNotFound
	case connect.CodeAlreadyExists, connect.CodeAborted, connect.CodeFailedPrecondition:
		return backend.KindConflict
	case connect.CodeUnimplemented:
		return backend.KindUnsupported
	}
	return backend.KindInternal
}

// isCut reports whether a stream ended without its end.
func isCut(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "connection reset") || strings.Contains(text, "missing end stream message") ||
		strings.Contains(text, "malformed chunked encoding")
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// reason says why nobody answered without saying where: hosts of sandboxes are built
// from ids, and URLs may hold credentials.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the host name cannot be resolved"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + firstLine(op.Err.Error())
	}
	return firstLine(err.Error())
}

// firstLine shortens.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return clip(line)
}

// say is what a reply becomes in a message.
func say(r *Reply) string {
	switch {
	case r.Page:
		return "an HTML page instead of an answer: is the address right, and nothing in between?"
	case r.Message != "" && r.Code != "" && r.Code != r.Message:
		return r.Code + ": " + r.Message
	case r.Message != "":
		return r.Message
	case r.Code != "":
		return r.Code
	case r.Text != "":
		return r.Text
	}
	return "no explanation"
}
