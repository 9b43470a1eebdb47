package process

import (
	"context"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Call is one call to a plugin that is over.
type Call struct {
	// Method is the call's name in the contract, for example "Run".
	Method string
	// Took is from its beginning to its end, streams included.
	Took time.Duration
	// Code is how it ended, as gRPC names it: "OK", "Canceled" when the caller went
	// away, "Unavailable" when the plugin did.
	Code string
	// Blamed says that the end counts against the plugin: it crashed, broke the
	// contract, or says that it, or what it stands for, cannot work now. What it says
	// about one sandbox or one request does not count.
	Blamed bool
}

func blamed(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss,
		codes.FailedPrecondition: // how backend.KindUnavailable travels
		return true
	default:
		return false
	}
}

// observer tells a function about every call over a connection.
type observer func(Call)

var _ stats.Handler = observer(nil)

type methodKey struct{}

func (o observer) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, path.Base(info.FullMethodName))
}

func (o observer) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		method, _ := ctx.Value(methodKey{}).(string)
		code := status.Code(end.Error)
		o(Call{Method: method, Took: end.EndTime.Sub(end.BeginTime), Code: code.String(), Blamed: blamed(code)})
	}
}

func (o observer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (o observer) HandleConn(context.Context, stats.ConnStats)                       {}
