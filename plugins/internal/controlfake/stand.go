package controlfake

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Stand is a Server and its Gateway on addresses of this machine.
type Stand struct {
	*Server
	// API and GatewayURL are where they are.
	API, GatewayURL string

	servers []*http.Server
	served  chan struct{}
}

// Listen serves a provider until Close. The addresses are HOST:PORT, with port 0 for
// any.
func Listen(o Options, api, gateway string) (*Stand, error) {
	s := &Stand{Server: New(o), served: make(chan struct{}, 2)}
	for _, part := range []struct {
		address string
		url     *string
		handler http.Handler
	}{{api, &s.API, s.Server}, {gateway, &s.GatewayURL, s.Gateway()}} {
		lis, err := net.Listen("tcp", part.address)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		*part.url = "http://" + lis.Addr().String()
		srv := &http.Server{Handler: part.handler, ReadHeaderTimeout: 10 * time.Second}
		s.servers = append(s.servers, srv)
		go func() {
			_ = srv.Serve(lis)
			s.served <- struct{}{}
		}()
	}
	return s, nil
}

// Close ends the servers and every sandbox.
func (s *Stand) Close() error {
	errs := []error{s.Server.Close()}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, srv := range s.servers {
		if err := srv.Shutdown(ctx); err != nil {
			errs = append(errs, srv.Close())
		}
	}
	for range s.servers {
		<-s.served
	}
	return errors.Join(errs...)
}
