package backend

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// NewServer returns a gRPC server that offers b: with the protocol's message
// limits, and with panics of b turned into errors of kind internal, so that one
// bad call costs itself and not the process. log may be nil. It is what Serve
// serves; tests use it over a connection of their own.
//
// It fails when b declares capabilities that it does not implement.
func NewServer(ctx context.Context, b Backend, log hclog.Logger, opts ...grpc.ServerOption) (*grpc.Server, error) {
	info, err := describe(ctx, b)
	if err != nil {
		return nil, err
	}
	return newServer(b, info, log, opts), nil
}

// describe asks b what it is and refuses promises that it cannot keep.
func describe(ctx context.Context, b Backend) (Info, error) {
	info, err := b.Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("info: %w", err)
	}
	if missing := Unimplemented(b, info); len(missing) > 0 {
		return Info{}, fmt.Errorf("capabilities %q are declared but not implemented", missing)
	}
	return info, nil
}

func newServer(b Backend, info Info, log hclog.Logger, opts []grpc.ServerOption) *grpc.Server {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	r := recoverer{log}
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.ChainUnaryInterceptor(incomingUnary, r.unary),
		grpc.ChainStreamInterceptor(incomingStream, r.stream),
	}, opts...)...)
	pb.RegisterBackendServer(s, &server{b: b, info: info, recoverer: r})
	return s
}

// server is the plugin's side of the wire.
type server struct {
	pb.UnimplementedBackendServer
	recoverer
	b    Backend
	info Info
}

// recoverer keeps a panic from ending the process.
type recoverer struct{ log hclog.Logger }

func (r recoverer) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer r.catch(ctx, info.FullMethod, &err)
	return next(ctx, req)
}

func (r recoverer) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer r.catch(ss.Context(), info.FullMethod, &err)
	return next(srv, ss)
}

// catch is deferred directly. The panic's value stays in the log: it may hold
// anything, and errors travel further.
func (r recoverer) catch(ctx context.Context, op string, err *error) {
	if p := recover(); p != nil {
		r.log.Error("panic in a call", "op", op, "request", RequestID(ctx), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = toStatus(ctx, op, Errorf(KindInternal, op, "the plugin panicked; its log says where"))
	}
}

func (s *server) Info(ctx context.Context, _ *pb.InfoRequest) (*pb.InfoResponse, error) {
	info, err := s.b.Info(ctx)
	return toPBInfo(info), toStatus(ctx, "Info", err)
}

func (s *server) Health(ctx context.Context, _ *pb.HealthRequest) (*pb.HealthResponse, error) {
	h, err := s.b.Health(ctx)
	return &pb.HealthResponse{
		Ready: h.Ready, Reason: errorText(h.Reason), RetryAfter: toPBDuration(h.RetryAfter),
	}, toStatus(ctx, "Health", err)
}

func (s *server) OpenConfig(ctx context.Context, r *pb.OpenConfigRequest) (*pb.OpenConfigResponse, error) {
	err := s.b.OpenConfig(ctx, r.GetId(), r.GetConfig())
	return &pb.OpenConfigResponse{}, toStatus(ctx, "OpenConfig", err)
}

func (s *server) CloseConfig(ctx context.Context, r *pb.CloseConfigRequest) (*pb.CloseConfigResponse, error) {
	err := s.b.CloseConfig(ctx, r.GetId())
	return &pb.CloseConfigResponse{}, toStatus(ctx, "CloseConfig", err)
}

func (s *server) Probe(ctx context.Context, r *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	p, err := s.b.Probe(ctx, r.GetConfig())
	return &pb.ProbeResponse{
		Ok: p.OK, Detail: errorText(p.Detail), Languages: toPBLanguages(p.Languages),
	}, toStatus(ctx, "Probe", err)
}

func (s *server) Create(ctx context.Context, r *pb.CreateRequest) (*pb.CreateResponse, error) {
	spec, err := fromPBCreate(r)
	if err != nil {
		return nil, toStatus(ctx, "Create", err)
	}
	sb, err := s.b.Create(ctx, spec)
	return &pb.CreateResponse{Sandbox: toPBSandbox(sb)}, toStatus(ctx, "Create", err)
}

func (s *server) Connect(ctx context.Context, r *pb.ConnectRequest) (*pb.ConnectResponse, error) {
	ref, token := fromPBRef(r.GetRef()), r.GetToken()
	if token != "" {
		c, ok := Optional[TokenConnector](s.b, s.info)
		if !ok {
			return nil, unsupported(ctx, "Connect")
		}
		sb, err := c.ConnectToken(ctx, ref, token)
		return &pb.ConnectResponse{Sandbox: toPBSandbox(sb)}, toStatus(ctx, "Connect", err)
	}
	sb, err := s.b.Connect(ctx, ref)
	return &pb.ConnectResponse{Sandbox: toPBSandbox(sb)}, toStatus(ctx, "Connect", err)
}

func (s *server) Get(ctx context.Context, r *pb.GetRequest) (*pb.GetResponse, error) {
	sb, err := s.b.Get(ctx, fromPBRef(r.GetRef()))
	return &pb.GetResponse{Sandbox: toPBSandbox(sb)}, toStatus(ctx, "Get", err)
}

func (s *server) List(r *pb.ListRequest, stream grpc.ServerStreamingServer[pb.ListResponse]) error {
	ctx := stream.Context()
	found, err := s.b.List(ctx, ListFilter{
		Config:     r.GetConfig(),
		Deployment: r.GetDeployment(),
		Tenant:     r.GetTenant(),
		Session:    r.GetSession(),
		Labels:     r.GetLabels(),
		States:     mapSlice(r.GetStates(), func(n pb.State) State { return stateEnum.word(n, StateUnknown) }),
	})
	if err != nil {
		return toStatus(ctx, "List", err)
	}
	return sendBatches(found, toPBSandbox, sandboxSize, func(batch []*pb.Sandbox) error {
		return stream.Send(&pb.ListResponse{Sandboxes: batch})
	})
}

func sandboxSize(s Sandbox) int {
	n := 2*entryOverhead + len(s.ID) + len(s.Config) + len(s.Metadata.Session) + len(s.Token)
	for k, v := range s.Metadata.Labels {
		n += len(k) + len(v) + 8
	}
	return n
}

func (s *server) Delete(ctx context.Context, r *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	err := s.b.Delete(ctx, fromPBRef(r.GetRef()))
	return &pb.DeleteResponse{}, toStatus(ctx, "Delete", err)
}

// sendBatches cuts a listing into messages far below the limit.
func sendBatches[T, P any](items []T, convert func(T) P, size func(T) int, send func([]P) error) error {
	var batch []P
	bytes := 0
	for _, it := range items {
		batch = append(batch, convert(it))
		if bytes += size(it); bytes < batchBytes {
			continue
		}
		if err := send(batch); err != nil {
			return err
		}
		batch, bytes = nil, 0
	}
	if len(batch) == 0 {
		return nil
	}
	return send(batch)
}
