package backend

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// stuck is a backend whose Health hears nobody.
type stuck struct {
	Backend
	called, leave chan struct{}
}

func (s stuck) Health(context.Context) (Health, error) {
	close(s.called)
	<-s.leave
	return Health{}, nil
}

// TestUnattendedAndStuck: a call that does not end keeps no plugin that has no host.
func TestUnattendedAndStuck(t *testing.T) {
	b, hosts := stuck{called: make(chan struct{}), leave: make(chan struct{})}, &attendance{}
	srv := newServer(b, Info{}, nil, []grpc.ServerOption{grpc.StatsHandler(hosts)})
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := NewClient(conn).Health(t.Context())
		asked <- err
	}()
	<-b.called
	_ = conn.Close()
	if err := <-asked; err == nil {
		t.Error("the call has an answer")
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		hosts.stopUnattended(t.Context(), time.Millisecond, hclog.NewNullLogger(), srv)
	}()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it goes on serving")
	}
	close(b.leave)
	<-stopped
}
