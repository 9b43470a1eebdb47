package fault

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Class is which calls of the control plane one is: the same status means different
// things to them.
type Class int

const (
	// Create makes a sandbox.
	Create Class = iota
	// Sandbox is any other call about one sandbox by its id.
	Sandbox
	// Listing is a call about sandboxes in general.
	Listing
	// Template and Snapshot are calls about those.
	Template
	Snapshot
)

func (c Class) subject() backend.Subject {
	switch c {
	case Template:
		return backend.SubjectTemplate
	case Snapshot:
		return backend.SubjectSnapshot
	default:
		return backend.SubjectSandbox
	}
}

// noRoute begins the message of a validator that answers for routes which do not
// exist.
const noRoute = "validation error:"

// NoRoute reports whether a reply says that the route does not exist, rather than
// what it is about: another version of the route may.
func (r *Reply) NoRoute() bool {
	switch r.Status {
	case http.StatusNotFound:
		return !r.JSON || strings.HasPrefix(r.Message, noRoute) || r.Message == "" && r.Code == ""
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// Control makes the error of a call to the control plane. Only for the class Sandbox,
// and only for a reply that is about the sandbox, does it prove that one is gone.
func Control(provider, op string, class Class, r *Reply) *backend.Error {
	e := &backend.Error{
		Kind: controlKind(class, r), Op: op, Provider: provider, Subject: class.subject(), Plane: backend.PlaneControl,
		Message: say(r), Status: r.Status, RetryAfter: r.RetryAfter,
	}
	if class == Create || class == Listing {
		// What is missing is not the sandbox.
		e.Subject = ""
		if r.Status == http.StatusNotFound && e.Kind == backend.KindInvalidRequest {
			e.Subject = backend.SubjectTemplate
		}
	}
	return e
}

// Transport makes the error of a call that got no answer. The context's own errors
// stay what they are.
func Transport(ctx context.Context, provider, op string, plane backend.Plane, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kind := backend.KindUnavailable
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		kind = backend.KindTimeout
	}
	return &backend.Error{Kind: kind, Op: op, Provider: provider, Plane: plane, Message: reason(err)}
}

func controlKind(class Class, r *Reply) backend.Kind {
	about := class == Template || class == Snapshot
	switch s := r.Status; {
	case s == 400 && about && (r.Says("cannot delete") || r.Says("not in waiting state") || r.Says("in use")):
		return backend.KindConflict
	case s == 400 && about && r.Says("not found"):
		return backend.KindNotFound
	case s == 400, s == 413, s == 415, s == 422:
		return backend.KindInvalidRequest
	case s == 401:
		return backend.KindAuthentication
	case s == 403 && !about && (r.Says("not enabled") || r.Says("feature")):
		return backend.KindUnsupported
	case s == 403:
		return backend.KindAuthentication
	case r.NoRoute():
		return backend.KindUnsupported
	case s == 404 && class == Create:
		return backend.KindInvalidRequest // the template
	case s == 404:
		return backend.KindNotFound
	case s == 408, s == 504:
		if r.Code == "sandbox_placement_timeout" {
			return backend.KindCapacity
		}
		return backend.KindTimeout
	case s == 409 && r.Says("paused_resource_release_ratio"):
		return backend.KindCapacity
	case s == 409:
		return backend.KindConflict
	case s == 410 && about:
		return backend.KindNotFound
	case s == 410 && (class == Sandbox || class == Create) && !r.Page:
		return backend.KindTerminal
	case s == 410:
		return backend.KindUnavailable
	case s == 429, s == 507:
		return backend.KindCapacity
	case (s == 502 || s == 503) && (r.Code == "sandbox_capacity_unavailable" || r.Code == "sandbox_no_compatible_node"):
		return backend.KindCapacity
	case s >= 500:
		return backend.KindUnavailable // also with "not found" in its text
	case s < 300 && r.Page:
		return backend.KindUnavailable // somebody else answered
	}
	return backend.KindInternal
}
