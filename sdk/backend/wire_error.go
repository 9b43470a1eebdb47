package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// maxErrorText bounds each text of an error: errors travel in header frames.
const maxErrorText = 2048

// kindCodes gives tools that know gRPC but not us a fair idea of a failure.
// Neither side branches on it: what counts is the detail.
var kindCodes = map[Kind]codes.Code{
	KindNotFound:       codes.NotFound,
	KindTerminal:       codes.NotFound,
	KindAuthentication: codes.PermissionDenied,
	KindInvalidRequest: codes.InvalidArgument,
	KindUnsupported:    codes.Unimplemented,
	KindConflict:       codes.AlreadyExists,
	KindCapacity:       codes.ResourceExhausted,
	KindTimeout:        codes.Aborted,
	KindUnavailable:    codes.FailedPrecondition,
	KindInternal:       codes.Internal,
}

// toStatus turns an error of an implementation into a gRPC status. ctx is the
// call's own: only when it ended does the error cross as a context error. A
// context error of any other context is the backend's own failure.
func toStatus(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil && errors.Is(err, ctxErr) {
		return status.FromContextError(ctxErr).Err()
	}
	detail := toPBError(op, err)
	st, withErr := status.New(kindCodes[kindEnum.word(detail.GetKind(), KindInternal)], detail.GetMessage()).WithDetails(detail)
	if withErr != nil { // cannot happen: the detail is our own message
		return status.Error(codes.Internal, withErr.Error())
	}
	return st.Err()
}

func toPBError(op string, err error) *pb.Error {
	var e *Error
	if !errors.As(err, &e) {
		kind := KindInternal
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			kind = KindTimeout
		case errors.Is(err, context.Canceled):
			kind = KindUnavailable
		}
		e = &Error{Kind: kind, Op: op, Message: err.Error()}
	} else if outer := err.Error(); outer != e.Error() {
		// Somebody wrapped the *Error: what was added is worth keeping.
		c := *e
		c.Message, c.Cause = outer, nil
		e = &c
	}
	out := &pb.Error{
		Kind:     kindEnum.numberOr(e.Kind, pb.Kind_KIND_INTERNAL),
		Op:       errorText(e.Op),
		Provider: errorText(e.Provider),
		Subject:  subjectEnum.numberOr(e.Subject, pb.Subject_SUBJECT_UNSPECIFIED),
		Plane:    planeEnum.numberOr(e.Plane, pb.Plane_PLANE_UNSPECIFIED),
		Message:  errorText(e.Message),
		Status:   int32(e.Status),
	}
	if out.Op == "" {
		out.Op = op
	}
	if e.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(e.RetryAfter)
	}
	if e.Cause != nil {
		out.Cause = errorText(e.Cause.Error())
	}
	return out
}

func fromPBError(p *pb.Error) *Error {
	e := &Error{
		Kind:     kindEnum.word(p.GetKind(), KindInternal),
		Op:       errorText(p.GetOp()),
		Provider: errorText(p.GetProvider()),
		Subject:  subjectEnum.word(p.GetSubject(), ""),
		Plane:    planeEnum.word(p.GetPlane(), ""),
		Message:  errorText(p.GetMessage()),
		Status:   int(p.GetStatus()),
	}
	if d := p.GetRetryAfter().AsDuration(); d > 0 {
		e.RetryAfter = d
	}
	if c := p.GetCause(); c != "" {
		e.Cause = errors.New(errorText(c))
	}
	return e
}

// fromStatus turns what a gRPC call returned into an error of the contract.
// ctx is the caller's own, not one that a default deadline was added to.
func fromStatus(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if e := detailOf(err); e != nil {
		return e
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%s: %w", op, ctxErr)
	}
	st, _ := status.FromError(err)
	text := errorText(st.Message())
	switch st.Code() {
	case codes.DeadlineExceeded:
		if _, ok := ctx.Deadline(); ok { // the peer's clock was a little faster
			return fmt.Errorf("%s: %w", op, context.DeadlineExceeded)
		}
		return Errorf(KindTimeout, op, "the plugin did not answer in time")
	case codes.Unimplemented:
		return Errorf(KindUnsupported, op, "the plugin does not implement this call")
	case codes.ResourceExhausted:
		return Errorf(KindCapacity, op, "message too large: %s", text)
	case codes.Internal:
		if strings.Contains(text, "marshaling") {
			return Errorf(KindInvalidRequest, op, "text that is not UTF-8: %s", text)
		}
		return Errorf(KindInternal, op, "%s", text)
	case codes.Unknown:
		if errors.Is(err, io.EOF) {
			return lostPlugin(op, "the plugin closed the stream")
		}
		return Errorf(KindInternal, op, "%s", text)
	case codes.Unavailable, codes.Canceled: // the latter from a connection that was given up
		return lostPlugin(op, "cannot reach the plugin: "+text)
	default:
		return Errorf(KindUnavailable, op, "cannot reach the plugin: %s", text)
	}
}

// lostPlugin is the error of a call that the end of the plugin, or of the connection to
// it, cut off. Whoever runs the plugin starts it again.
func lostPlugin(op, message string) *Error {
	e := Errorf(KindUnavailable, op, "%s", message)
	e.RetryAfter = time.Second
	return e
}

// detailOf returns the Error detail of a status, nil when there is none: then
// the transport failed, not the plugin.
func detailOf(err error) *Error {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		if p, ok := d.(*pb.Error); ok {
			return fromPBError(p)
		}
	}
	return nil
}

// violation is the error for a plugin that does not keep to the protocol.
func violation(op, format string, args ...any) *Error {
	return Errorf(KindInternal, op, "protocol violation by the plugin: "+format, args...)
}

// errorText bounds a text and makes it valid UTF-8, which protobuf insists on.
func errorText(s string) string {
	if len(s) > maxErrorText {
		return text(s[:maxErrorText]) + "…"
	}
	return text(s)
}

// text makes what a provider or a program said valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
