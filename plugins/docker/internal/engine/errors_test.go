package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestFail: what engines say, as measured with 20.10 and read in 28, and the
// neutral kind and subject of each. Only what is absent itself proves anything.
func TestFail(t *testing.T) {
	of := func(kind error, text string) error {
		return fmt.Errorf("Error response from daemon: %s%w", text, quiet{kind})
	}
	for name, c := range map[string]struct {
		err     error
		kind    backend.Kind
		subject backend.Subject
		proof   bool
	}{
		"no container":        {of(errdefs.ErrNotFound, "No such container: x"), backend.KindNotFound, backend.SubjectSandbox, true},
		"no image":            {of(errdefs.ErrNotFound, "No such image: x:1"), backend.KindNotFound, backend.SubjectTemplate, false},
		"no file":             {of(errdefs.ErrNotFound, "Could not find the file /a in container x"), backend.KindNotFound, backend.SubjectFile, false},
		"no volume":           {of(errdefs.ErrNotFound, "get v: no such volume"), backend.KindNotFound, backend.SubjectVolume, false},
		"no network":          {of(errdefs.ErrNotFound, "network nosuchnet not found"), backend.KindInvalidRequest, backend.SubjectConfig, false},
		"no exec":             {of(errdefs.ErrNotFound, "No such exec instance: x"), backend.KindUnavailable, backend.SubjectRun, false},
		"name in use":         {of(errdefs.ErrConflict, `Conflict. The container name "/x" is already in use by container "ID"`), backend.KindConflict, backend.SubjectSandbox, false},
		"paused":              {of(errdefs.ErrConflict, "Container x is paused, unpause the container before exec"), backend.KindConflict, backend.SubjectSandbox, false},
		"not paused":          {of(errdefs.ErrInternal, "Container x is not paused"), backend.KindConflict, backend.SubjectSandbox, false},
		"bad name":            {of(errdefs.ErrInvalidArgument, "Invalid container name (x), only [a-zA-Z0-9] are allowed"), backend.KindInvalidRequest, backend.SubjectSandbox, false},
		"too many CPUs":       {of(errdefs.ErrInvalidArgument, "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available"), backend.KindInvalidRequest, backend.SubjectSandbox, false},
		"unknown runtime":     {of(errdefs.ErrInvalidArgument, "Unknown runtime specified runsc"), backend.KindInvalidRequest, backend.SubjectConfig, false},
		"unknown user":        {of(errdefs.ErrInternal, "unable to find user x: no matching entries in passwd file"), backend.KindInvalidRequest, backend.SubjectConfig, false},
		"no disk quota":       {of(errdefs.ErrInternal, "--storage-opt is supported only for overlay over xfs with 'pquota' mount option"), backend.KindUnsupported, backend.SubjectSandbox, false},
		"not implemented":     {of(errdefs.ErrNotImplemented, "checkpoint"), backend.KindUnsupported, backend.SubjectSandbox, false},
		"disk full":           {of(errdefs.ErrInternal, "mkdir /var/lib/docker/overlay2/ab: no space left on device"), backend.KindCapacity, backend.SubjectSandbox, false},
		"too many requests":   {of(errdefs.ErrInternal, "toomanyrequests: You have reached your pull rate limit"), backend.KindCapacity, backend.SubjectSandbox, false},
		"forbidden":           {of(errdefs.ErrPermissionDenied, "authorization denied by plugin"), backend.KindAuthentication, backend.SubjectSandbox, false},
		"unauthorised":        {of(errdefs.ErrUnauthenticated, "authentication required"), backend.KindAuthentication, backend.SubjectSandbox, false},
		"socket closed to us": {&net.OpError{Op: "dial", Net: "unix", Err: syscall.EACCES}, backend.KindAuthentication, backend.SubjectSandbox, false},
		"bad certificate":     {errors.New("remote error: tls: bad certificate"), backend.KindAuthentication, backend.SubjectSandbox, false},
		"no registry":         {of(errdefs.ErrInternal, `Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host`), backend.KindInternal, backend.SubjectSandbox, false},
		"pull denied":         {of(errdefs.ErrNotFound, "pull access denied for x, repository does not exist or may require 'docker login'"), backend.KindNotFound, backend.SubjectTemplate, false},
		"no daemon":           {&net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED}, backend.KindUnavailable, backend.SubjectSandbox, false},
		"daemon died":         {fmt.Errorf("error during connect: read: %w", syscall.ECONNRESET), backend.KindUnavailable, backend.SubjectSandbox, false},
		"stream cut":          {io.ErrUnexpectedEOF, backend.KindUnavailable, backend.SubjectSandbox, false},
		"containerd down":     {of(errdefs.ErrInternal, `connection error: desc = "transport: Error while dialing"`), backend.KindUnavailable, backend.SubjectSandbox, false},
		"engine busy":         {of(errdefs.ErrUnavailable, "try again"), backend.KindUnavailable, backend.SubjectSandbox, false},
		"engine slow":         {fmt.Errorf("get: %w", context.DeadlineExceeded), backend.KindTimeout, backend.SubjectSandbox, false},
		"stream refused":      {errors.New("unable to upgrade to tcp, received 409"), backend.KindConflict, backend.SubjectSandbox, false},
		"stream absent":       {errors.New("unable to upgrade to tcp, received 404"), backend.KindNotFound, backend.SubjectSandbox, false},
		"stream broken":       {errors.New("unable to upgrade to tcp, received 500"), backend.KindInternal, backend.SubjectSandbox, false},
		"anything else":       {of(errdefs.ErrInternal, "oci runtime error"), backend.KindInternal, backend.SubjectSandbox, false},
	} {
		got := Fail(t.Context(), "Op", backend.SubjectSandbox, c.err)
		var e *backend.Error
		if !errors.As(got, &e) {
			t.Errorf("%s: %v is no *backend.Error", name, got)
			continue
		}
		if e.Kind != c.kind || e.Subject != c.subject || backend.ProvesGone(got) != c.proof {
			t.Errorf("%s: kind %q, subject %q, proof %v; want %q, %q, %v (%v)", name, e.Kind, e.Subject, backend.ProvesGone(got), c.kind, c.subject, c.proof, got)
		}
		if e.Provider != Provider || e.Op != "Op" || strings.Contains(got.Error(), "/var") || strings.Contains(got.Error(), "https://") {
			t.Errorf("%s: %v", name, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Fail(ctx, "Op", backend.SubjectSandbox, errors.New("any")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left is told %v", err)
	}
	if err := Fail(t.Context(), "Op", backend.SubjectSandbox, nil); err != nil {
		t.Errorf("success is %v", err)
	}
}

// quiet has a kind and no text.
type quiet struct{ error }

func (q quiet) Error() string { return "" }
func (q quiet) Unwrap() error { return q.error }

// FuzzDemux: an engine's stream is foreign bytes.
func FuzzDemux(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x00\x00\x00\x01!"))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		count := func(p []byte) error { total += len(p); return nil }
		_ = demux(strings.NewReader(string(b)), Streams{Stdout: count, Stderr: count})
		if total > len(b) {
			t.Errorf("%d bytes out of %d", total, len(b))
		}
	})
}
