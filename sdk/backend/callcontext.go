package backend

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// What a call takes from its caller to the backend beside its arguments: the id of the
// request that it serves, for logs, and the trace that it belongs to, as W3C Trace
// Context writes it (https://www.w3.org/TR/trace-context/). Both cross a process
// boundary as gRPC metadata.

type requestIDKey struct{}

// WithRequestID returns ctx with the id of the request that calls serve.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that ctx serves, or empty. A backend finds it in
// the context of every call, in its own process too, and may log it. The span of
// the call's trace is there as well: trace.SpanContextFromContext.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

const (
	metaRequestID = "caisson-request-id"
	// maxRequestID bounds an id that is passed on, in bytes.
	maxRequestID = 128
)

// outgoing puts what ctx says of its request into the metadata of a call.
func outgoing(ctx context.Context) context.Context {
	id, span := RequestID(ctx), trace.SpanContextFromContext(ctx)
	if !sendable(id) && !span.IsValid() {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = make(metadata.MD, 3)
	}
	if sendable(id) {
		md.Set(metaRequestID, id)
	}
	if span.IsValid() {
		propagation.TraceContext{}.Inject(ctx, carrier(md))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// sendable: metadata holds printable ASCII, and a call with anything else fails.
func sendable(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// incoming is the other end of outgoing.
func incoming(ctx context.Context) context.Context {
	md, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
	if ids := md.Get(metaRequestID); len(ids) == 1 && sendable(ids[0]) {
		ctx = WithRequestID(ctx, ids[0])
	}
	return propagation.TraceContext{}.Extract(ctx, carrier(md))
}

// carrier lets the propagation read and write metadata.
type carrier metadata.MD

var _ propagation.TextMapCarrier = carrier(nil)

func (c carrier) Get(key string) string {
	if v := metadata.MD(c).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// incomingUnary and incomingStream apply incoming to every call of a server.
func incomingUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(incoming(ctx), req)
}

func incomingStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, inContext{ss, incoming(ss.Context())})
}

type inContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s inContext) Context() context.Context { return s.ctx }
