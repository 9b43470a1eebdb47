package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// authority signs certificates for a test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(name, true)
	return a
}

// sign makes NAME.pem and NAME-key.pem.
func (a *authority) sign(name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	parent, signer := c, key
	if !isCA {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + "-key.pem": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(a.path(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// serveTLS lets the tests' engine be reached over TCP by whoever has a certificate of a,
// as an engine with --tlsverify does.
func (a *authority) serveTLS() string {
	a.t.Helper()
	a.sign("server", false)
	cert, err := tls.LoadX509KeyPair(a.path("server.pem"), a.path("server-key.pem"))
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	lis, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		a.t.Fatal(err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer in.Close()
				if in.(*tls.Conn).Handshake() != nil {
					return
				}
				out, err := net.Dial("unix", strings.TrimPrefix(testHost(), "unix://"))
				if err != nil {
					return
				}
				defer out.Close()
				var half sync.WaitGroup
				half.Go(func() {
					_, _ = io.Copy(out, in)
					_ = out.(*net.UnixConn).CloseWrite()
				})
				_, _ = io.Copy(in, out)
				_ = in.Close()
				half.Wait()
			})
		}
	})
	a.t.Cleanup(func() {
		_ = lis.Close()
		tasks.Wait()
	})
	return "tcp://" + lis.Addr().String()
}

// TestRemoteEngine: an engine over TCP serves who proves himself and whom it proves
// itself to, streams included. Nobody else gets anywhere, and no error names a file.
func TestRemoteEngine(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	ours, theirs := newAuthority(t, "ca"), newAuthority(t, "ca")
	host := ours.serveTLS()
	ours.sign("client", false)
	theirs.sign("client", false)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // is not asked
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	config := func(ca, client *authority) map[string]any {
		return map[string]any{
			"host": host, "tls_ca": ca.path("ca.pem"), "tls_cert": client.path("client.pem"), "tls_key": client.path("client-key.pem"),
		}
	}
	b := one(t, "exec", config(ours, ours))
	sb := mustCreate(t, b, specOf(sessionName("remote")))
	write(t, b, sb.Ref, dataFile, strings.Repeat("x", 1<<20))
	if res, l := run(t, b, bash(sb.Ref, "wc -c <kept.txt")); strings.TrimSpace(l.stdout.String()) != "1048576" {
		t.Errorf("%+v, %q %q", res, l.stdout.String(), l.stderr.String())
	}
	plain := one(t, "off", config(ours, ours))
	if got := read(t, plain, mustCreate(t, plain, specOf(sessionName("plain"))).Ref, "/etc/hostname"); got == "" {
		t.Error("nothing was read without the agent")
	}
	for name, c := range map[string]map[string]any{
		"a client of another authority":  config(ours, theirs),
		"an engine of another authority": config(theirs, ours),
	} {
		b := one(t, "off", c)
		_, err := b.Create(t.Context(), specOf(sessionName("nobody")))
		if kind := backend.KindOf(err); err == nil || kind != backend.KindAuthentication && kind != backend.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), ours.dir) || strings.Contains(err.Error(), theirs.dir)) {
			t.Errorf("%s: the error names a file: %v", name, err)
		}
	}
	broken := config(ours, ours)
	broken["tls_key"] = ours.path("absent.pem")
	other := openBackend(t, shortDir(t), false, nil)
	t.Cleanup(func() { closeBackend(t, other) })
	err := other.OpenConfig(t.Context(), "c", testConfig(t, broken))
	wantKind(t, "a key that is not there", err, backend.KindAuthentication)
	if err != nil && strings.Contains(err.Error(), ours.dir) {
		t.Errorf("the error names a file: %v", err)
	}
}
