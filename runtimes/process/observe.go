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
	// Code is how it ended: codes.OK, codes.Canceled when the caller went away,
	// codes.Unavailable when the plugin did, and so on.
	Code codes.Code
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
		o(Call{Method: method, Took: end.EndTime.Sub(end.BeginTime), Code: status.Code(end.Error)})
	}
}

func (o observer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (o observer) HandleConn(context.Context, stats.ConnStats)                       {}
