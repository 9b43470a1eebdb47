package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// NewClient returns the backend at the other end of conn. It implements every
// optional interface: what the plugin lacks fails with KindUnsupported, and
// Optional hides it. It trusts nothing that it is told: an answer about another
// sandbox, a result that breaks its contract, or frames out of order are errors
// of kind internal, and a run is stopped.
//
// A call without a deadline gets one, so that a frozen plugin costs time and not
// a goroutine; calls that stream (Run, ReadFile, WriteFile, terminals, ports,
// Watch) have none. The connection stays the caller's.
func NewClient(conn grpc.ClientConnInterface) Backend {
	return &client{pb: pb.NewBackendClient(capped{conn}), grace: cancelGrace, overrun: overrun}
}

// client is the host's side of the wire.
type client struct {
	pb pb.BackendClient
	// grace is how long a cancelled run may take to answer, overrun how long one
	// may take beyond its wall limit.
	grace, overrun time.Duration
}

var _ interface {
	Backend
	KeepAliver
	Pauser
	Snapshotter
	TemplateCatalog
	VolumeManager
	TerminalOpener
	PortDialer
	DetachedRunner
	Watcher
} = (*client)(nil)

// capped applies the message limit to every call, whatever the connection's own, and
// passes on whose request it serves.
type capped struct{ grpc.ClientConnInterface }

func withCaps(opts []grpc.CallOption) []grpc.CallOption {
	return append([]grpc.CallOption{
		grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage),
	}, opts...)
}

func (c capped) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(outgoing(ctx), method, args, reply, withCaps(opts)...)
}

func (c capped) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(outgoing(ctx), desc, method, withCaps(opts)...)
}

// unary makes one call with a default deadline.
func unary[Req, Resp any](
	ctx context.Context, op string, deadline time.Duration, req Req,
	call func(context.Context, Req, ...grpc.CallOption) (Resp, error),
) (Resp, error) {
	callCtx, cancel := withDefault(ctx, deadline)
	defer cancel()
	resp, err := call(callCtx, req)
	return resp, fromStatus(ctx, op, err)
}

// listing collects the batches of a listing.
func listing[Req, Resp, P, T any](
	ctx context.Context, op string, deadline time.Duration, req Req,
	call func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Resp], error),
	batch func(*Resp) []P, convert func(P) T,
) ([]T, error) {
	callCtx, cancel := withDefault(ctx, deadline)
	defer cancel()
	stream, err := call(callCtx, req)
	if err != nil {
		return nil, fromStatus(ctx, op, err)
	}
	var out []T
	bytes := 0
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fromStatus(ctx, op, err)
		}
		items := batch(resp)
		bytes += proto.Size(any(resp).(proto.Message))
		if len(out)+len(items) > maxListed || bytes > maxListedBytes {
			return nil, violation(op, "a listing of more than %d items or %d bytes", maxListed, maxListedBytes)
		}
		for _, p := range items {
			out = append(out, convert(p))
		}
	}
}

func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

func (c *client) Info(ctx context.Context) (Info, error) {
	resp, err := unary(ctx, "Info", deadlineShort, &pb.InfoRequest{}, c.pb.Info)
	if err != nil {
		return Info{}, err
	}
	return fromPBInfo(resp), nil
}

func (c *client) Health(ctx context.Context) (Health, error) {
	resp, err := unary(ctx, "Health", deadlineShort, &pb.HealthRequest{}, c.pb.Health)
	if err != nil {
		return Health{}, err
	}
	return Health{
		Ready: resp.GetReady(), Reason: errorText(resp.GetReason()), RetryAfter: max(0, resp.GetRetryAfter().AsDuration()),
	}, nil
}

func (c *client) OpenConfig(ctx context.Context, id string, config json.RawMessage) error {
	_, err := unary(ctx, "OpenConfig", deadlineLong, &pb.OpenConfigRequest{Id: id, Config: config}, c.pb.OpenConfig)
	return err
}

func (c *client) CloseConfig(ctx context.Context, id string) error {
	_, err := unary(ctx, "CloseConfig", deadlineCall, &pb.CloseConfigRequest{Id: id}, c.pb.CloseConfig)
	return err
}

func (c *client) Probe(ctx context.Context, config json.RawMessage) (ProbeReport, error) {
	resp, err := unary(ctx, "Probe", deadlineLong, &pb.ProbeRequest{Config: config}, c.pb.Probe)
	if err != nil {
		return ProbeReport{}, err
	}
	return ProbeReport{
		OK: resp.GetOk(), Detail: errorText(resp.GetDetail()), Languages: fromPBLanguages(resp.GetLanguages()),
	}, nil
}

func (c *client) Create(ctx context.Context, spec CreateSpec) (Sandbox, error) {
	const op = "Create"
	req, err := toPBCreate(spec)
	if err != nil {
		return Sandbox{}, err
	}
	resp, err := unary(ctx, op, deadlineLong, req, c.pb.Create)
	if err != nil {
		return Sandbox{}, err
	}
	sb, err := checkSandbox(op, Ref{Config: spec.Config}, resp.GetSandbox())
	if err != nil {
		return Sandbox{}, err
	}
	// Who keeps no metadata says nothing; whose is another's made or found another's.
	got, want := sb.Metadata, spec.Metadata
	for _, m := range [][2]string{{got.Deployment, want.Deployment}, {got.Session, want.Session}, {got.Tenant, want.Tenant}} {
		if m[0] != "" && m[0] != m[1] {
			return Sandbox{}, violation(op, "a sandbox of another session than was asked for")
		}
	}
	return sb, nil
}

func (c *client) Connect(ctx context.Context, ref Ref) (Sandbox, error) {
	return c.ConnectToken(ctx, ref, "")
}

// ConnectToken implements TokenConnector; without a token it is Connect.
func (c *client) ConnectToken(ctx context.Context, ref Ref, token string) (Sandbox, error) {
	const op = "Connect"
	resp, err := unary(ctx, op, deadlineLong, &pb.ConnectRequest{Ref: toPBRef(ref), Token: token}, c.pb.Connect)
	if err != nil {
		return Sandbox{}, err
	}
	return checkSandbox(op, ref, resp.GetSandbox())
}

func (c *client) Get(ctx context.Context, ref Ref) (Sandbox, error) {
	const op = "Get"
	resp, err := unary(ctx, op, deadlineCall, &pb.GetRequest{Ref: toPBRef(ref)}, c.pb.Get)
	if err != nil {
		return Sandbox{}, err
	}
	return checkSandbox(op, ref, resp.GetSandbox())
}

// checkSandbox refuses an answer about another sandbox than was asked for.
func checkSandbox(op string, want Ref, got *pb.Sandbox) (Sandbox, error) {
	s := fromPBSandbox(got)
	switch {
	case s.ID == "" || s.Config != want.Config:
		return Sandbox{}, violation(op, "a sandbox without id or of another config")
	case want.ID != "" && s.ID != want.ID:
		return Sandbox{}, violation(op, "another sandbox than was asked for")
	}
	return s, nil
}

func (c *client) List(ctx context.Context, f ListFilter) ([]Sandbox, error) {
	const op = "List"
	req := &pb.ListRequest{
		Config: f.Config, Deployment: f.Deployment, Tenant: f.Tenant, Session: f.Session, Labels: f.Labels,
	}
	for _, s := range f.States {
		n, ok := stateEnum.number(s)
		if !ok {
			return nil, Errorf(KindInvalidRequest, op, "state %q is none of the five", s)
		}
		req.States = append(req.States, n)
	}
	return listing(ctx, op, deadlineList, req, c.pb.List, (*pb.ListResponse).GetSandboxes, fromPBSandbox)
}

func (c *client) Delete(ctx context.Context, ref Ref) error {
	_, err := unary(ctx, "Delete", deadlineLong, &pb.DeleteRequest{Ref: toPBRef(ref)}, c.pb.Delete)
	return err
}
