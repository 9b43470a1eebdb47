package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Provider is the plugin's name in errors.
const Provider = "docker"

// Fail makes a neutral error of what a call of the engine returned: the method,
// what it was about, and the engine's own words without paths of its machine. The
// caller's own end is passed through. Only an answer of the engine about the subject
// itself is from the control plane; see Errorf for what an agent says.
func Fail(ctx context.Context, op string, subject backend.Subject, err error) error {
	if err == nil {
		return nil
	}
	var typed *backend.Error
	if errors.As(err, &typed) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kind, about := classify(err)
	if about == "" {
		about = subject
	}
	e := backend.Errorf(kind, op, "%s", scrub(err.Error()))
	e.Provider, e.Subject = Provider, about
	// "No such container" proves something about a sandbox; anything else that is
	// missing, a stream or a network, does not.
	if kind == backend.KindNotFound && (about != backend.SubjectSandbox || strings.Contains(err.Error(), "No such container")) {
		e.Plane = backend.PlaneControl
	}
	return e
}

// Errorf makes an error that the engine did not report.
func Errorf(kind backend.Kind, op string, subject backend.Subject, format string, args ...any) *backend.Error {
	e := backend.Errorf(kind, op, format, args...)
	e.Provider, e.Subject = Provider, subject
	return e
}

// Absent is the proof that a sandbox does not exist.
func Absent(op, id string) error {
	e := Errorf(backend.KindNotFound, op, backend.SubjectSandbox, "no sandbox %q", id)
	e.Plane = backend.PlaneControl
	return e
}

// FileError is about a path inside a sandbox and proves nothing about that.
func FileError(kind backend.Kind, op, path, reason string) error {
	e := Errorf(kind, op, backend.SubjectFile, "%s: %s", path, reason)
	e.Plane = backend.PlaneData
	return e
}

// classify finds the neutral kind of an engine's error, and the subject where the
// text names another than the call was about. Where the engine's own kind is too
// coarse ("internal" for a full disk) the text decides; texts are those of
// moby 20.10 to 28.
func classify(err error) (backend.Kind, backend.Subject) {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, os.ErrPermission), has("permission denied while trying to connect"):
		return backend.KindAuthentication, ""
	case has("tls: ", "x509: "):
		return backend.KindAuthentication, ""
	case errors.Is(err, context.DeadlineExceeded):
		return backend.KindTimeout, ""
	case client.IsErrConnectionFailed(err), isNetwork(err), errors.Is(err, io.ErrUnexpectedEOF), has("unexpected EOF"),
		has("connection error: desc", "cannot connect to the Docker daemon", "error during connect", "use of closed network connection"):
		return backend.KindUnavailable, ""
	case has("no space left on device", "disk quota exceeded", "toomanyrequests"):
		return backend.KindCapacity, ""
	case has("No such image", "manifest unknown", "pull access denied", "repository does not exist"):
		return backend.KindNotFound, backend.SubjectTemplate
	case has("no such volume", "No such volume"):
		return backend.KindNotFound, backend.SubjectVolume
	case has("Could not find the file", "no such file or directory"):
		return backend.KindNotFound, backend.SubjectFile
	case has("No such exec instance"):
		return backend.KindUnavailable, backend.SubjectRun
	case has("network") && has(" not found"):
		return backend.KindInvalidRequest, backend.SubjectConfig
	case has("is not paused"):
		return backend.KindConflict, ""
	case has("supported only for overlay", "not supported"):
		return backend.KindUnsupported, ""
	case has("Unknown runtime", "unknown or invalid runtime", "unable to find user", "Decoding seccomp"):
		return backend.KindInvalidRequest, backend.SubjectConfig
	}
	if m := upgrade.FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1])
		return ofStatus(status), ""
	}
	switch {
	case errdefs.IsNotFound(err):
		return backend.KindNotFound, ""
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err), errdefs.IsFailedPrecondition(err):
		return backend.KindConflict, ""
	case errdefs.IsInvalidArgument(err), errdefs.IsOutOfRange(err):
		return backend.KindInvalidRequest, ""
	case errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return backend.KindAuthentication, ""
	case errdefs.IsNotImplemented(err):
		return backend.KindUnsupported, ""
	case errdefs.IsResourceExhausted(err):
		return backend.KindCapacity, ""
	case errdefs.IsUnavailable(err), errdefs.IsAborted(err):
		return backend.KindUnavailable, ""
	case errdefs.IsDeadlineExceeded(err):
		return backend.KindTimeout, ""
	}
	return backend.KindInternal, ""
}

// upgrade is all that a refused stream says.
var upgrade = regexp.MustCompile(`unable to upgrade to \w+, received (\d{3})`)

func ofStatus(status int) backend.Kind {
	switch status {
	case 400:
		return backend.KindInvalidRequest
	case 401, 403:
		return backend.KindAuthentication
	case 404:
		return backend.KindNotFound
	case 409:
		return backend.KindConflict
	case 429, 507:
		return backend.KindCapacity
	case 501:
		return backend.KindUnsupported
	case 502, 503, 504:
		return backend.KindUnavailable
	}
	return backend.KindInternal
}

func isNetwork(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// IsAbsent reports whether the engine says that what was asked for does not exist.
func IsAbsent(err error) bool { return err != nil && errdefs.IsNotFound(err) }

// IsConflict reports whether the engine says that the state does not allow it.
func IsConflict(err error) bool { return err != nil && errdefs.IsConflict(err) }

// paths are absolute paths and addresses with them, as engines and the client put
// them into messages: they describe the engine's machine.
var paths = regexp.MustCompile(`(?:[a-z]+://)?/[\w.@%+-]+(?:/[^\s:"',)\]]*)*|(?:tcp|https?)://[^\s"',)\]]+`)

// scrub takes paths and line ends out of an engine's message and bounds it.
func scrub(text string) string {
	text = paths.ReplaceAllString(strings.ToValidUTF8(text, "?"), "…")
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 400 {
		text = string(runes[:400]) + "…"
	}
	return text
}
