package envd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
)

// quiet is a log that nobody reads.
var quiet = log.New(io.Discard, "", 0)

// certificate is for hosts below sandbox.test, and its own authority.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"*.sandbox.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS: over https the gateway is dialled, and the sandbox's own host is what is
// asked for and verified.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t)
	var mu sync.Mutex
	var names []string
	var server *httptest.Server
	var s *stand
	opts := func(change func(*envd.Options)) options {
		return options{change: func(o *envd.Options) {
			server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.gateway.ServeHTTP(w, r) }))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, h.ServerName)
				return nil, nil
			}}
			server.Config.ErrorLog = quiet
			server.StartTLS()
			t.Cleanup(server.Close)
			o.Gateway, o.TLS = server.URL, &tls.Config{RootCAs: pool}
			if change != nil {
				change(o)
			}
		}}
	}
	s = newStand(t, opts(nil))
	ref := s.sandbox()
	if res := s.exec(backend.ExecRequest{Ref: ref, Argv: []string{"echo", "x"}}); string(res.Stdout) != "x\n" {
		t.Errorf("%+v", res)
	}
	mu.Lock()
	for _, name := range names {
		if name != "49983-"+ref.ID+".sandbox.test" {
			t.Errorf("asked for %q", name)
		}
	}
	mu.Unlock()

	// Without a gateway of its own the host itself is dialled.
	var dialled []string
	s = newStand(t, opts(func(o *envd.Options) {
		o.Gateway = ""
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, address)
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}
	}))
	ref = s.sandbox()
	if _, err := s.ListDir(t.Context(), ref, data); err != nil {
		t.Error(err)
	}
	mu.Lock()
	if len(dialled) == 0 || dialled[0] != "49983-"+ref.ID+".sandbox.test:443" {
		t.Errorf("dialled %q", dialled)
	}
	mu.Unlock()

	// Somebody else's certificate is nobody's.
	s = newStand(t, opts(func(o *envd.Options) { o.TLS = nil }))
	ref = s.sandbox()
	_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
	wantKind(t, "an unknown authority", err, backend.KindUnavailable)
	s = newStand(t, opts(func(o *envd.Options) { o.Domain = "other.test" }))
	ref = s.sandbox()
	_, err = s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
	wantKind(t, "another name", err, backend.KindUnavailable)
}
