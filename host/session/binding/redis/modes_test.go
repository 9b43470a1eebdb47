package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/internal/redistest"
)

// A cluster refuses scripts whose keys are not in one slot.
func TestCluster(t *testing.T) {
	addrs := redistest.StartCluster(t)
	bindingtest.Run(t, func(t testing.TB) bindingtest.Fixture { return replicas(t, Options{Addrs: addrs}) })
	s, err := New(Options{Addrs: addrs[:1], Cluster: true, Namespace: "spread"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	works(t, s)
	// Sessions are spread: a listing has to ask every node.
	for i := range 60 {
		create(t, s, record(binding.Key{Tenant: "acme", Session: fmt.Sprint(i)}, "x"))
	}
	for _, addr := range addrs {
		n, err := redistest.Client(t, addr).DBSize(t.Context()).Result()
		if err != nil || n == 0 {
			t.Errorf("%s has %d keys, %v", addr, n, err)
		}
	}
	if n, err := s.MarkStale(t.Context(), "acme", "main"); err != nil || n < 60 {
		t.Errorf("MarkStale = %d, %v", n, err)
	}
}

// Sentinels name the new master after a failover. Their own tests cover elections;
// this one that we find our way without anybody's doing.
func TestSentinel(t *testing.T) {
	master, replica := redistest.StartTCP(t), ""
	host, port, _ := net.SplitHostPort(master.Addr)
	second := redistest.StartTCP(t, "--replicaof", host, port)
	replica = second.Addr
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n", host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.StartSentinel(t, config)
	s := open(t, sentinel.Addr, func(o *Options) { o.Master = "main" })
	create(t, s, record(acme, "x"))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			if ctx.Err() != nil {
				t.Fatal("waited in vain: " + what)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	c := redistest.Client(t, sentinel.Addr)
	wait("the sentinel knows the replica", func() bool {
		v, err := c.Do(ctx, "SENTINEL", "REPLICAS", "main").Slice()
		return err == nil && len(v) == 1 && strings.Contains(fmt.Sprint(v), "master-link-status:ok")
	})
	wait("the replica has the binding", func() bool {
		n, err := redistest.Client(t, replica).DBSize(ctx).Result()
		return err == nil && n > 0
	})
	master.Kill()
	wait("the store works again", func() bool {
		b, bound, err := s.Get(ctx, acme)
		if err != nil && !errors.Is(err, binding.ErrUnavailable) {
			t.Fatal(err)
		}
		if err == nil && (!bound || b.Sandbox != "x") {
			t.Fatalf("Get = %v, %v", b, bound)
		}
		if err != nil {
			return false
		}
		_, err = s.ReplaceToken(ctx, acme, "p", "x", "new")
		return err == nil
	})
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	// A port of 0 leaves TLS alone.
	server := redistest.StartTLS(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	s := open(t, server.Addr, func(o *Options) { o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} })
	works(t, s)
	stranger := open(t, server.Addr, func(o *Options) { o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12} })
	unavailable(t, stranger, binding.Down, 20*patience)
}

// certificate writes a certificate for 127.0.0.1 and its key.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// The rights that the package's documentation names are enough, and other keys are
// out of reach.
func TestDocumentedRights(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)(ACL SETUSER.*?)\npackage`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no ACL line in doc.go")
	}
	var rule []any
	for word := range strings.FieldsSeq(strings.ReplaceAll(string(found[1]), "//", "")) {
		rule = append(rule, strings.ReplaceAll(word, "PASSWORD", "hush"))
	}
	page, err := os.ReadFile("../../../../docs/session-store.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.Join(strings.Fields(strings.ReplaceAll(string(found[1]), "//", "")), " ")
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), plain) {
		t.Errorf("docs/session-store.md does not have the rights of doc.go: %s", plain)
	}
	server := redistest.Start(t)
	if err := server.Client(t).Do(t.Context(), rule...).Err(); err != nil {
		t.Fatalf("%v: %v", rule, err)
	}
	s := open(t, server.Addr, func(o *Options) { o.Username, o.Password = "caisson", "hush" })
	works(t, s)
	other := open(t, server.Addr, func(o *Options) { o.Username, o.Password, o.Namespace = "caisson", "hush", "elsewhere" })
	unavailable(t, other, binding.Auth, 20*patience, "Create", "Get", "BeginTurn", "Lock", "AddWork", "Work", "Bindings")
}

func TestReportOfAnUnsafeServer(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	report, err := open(t, server.Addr, nil).Check(t.Context())
	text := strings.Join(report.Warnings, "\n")
	if err != nil || report.Durable || !strings.Contains(text, "noeviction") || !strings.Contains(text, "appendonly") || !strings.HasPrefix(report.Server, "redis ") {
		t.Errorf("Check = %+v, %v", report, err)
	}
	for version, want := range map[string]bool{"6.2.0": true, "7.0.15": true, "10.0": true, "6.0.16": false, "5.0": false, "": false, "x": false} {
		if recent(version) != want {
			t.Errorf("recent(%q) = %v", version, !want)
		}
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"redis://u:hush@h:1/3":           "[h:1] u hush 3 false  caisson",
		"rediss://h":                     "[h:6379]   0 true  caisson",
		"unix://u:hush@/run/r.sock?db=2": "[/run/r.sock] u hush 2 false  caisson",
		"redis://s:26379?master=main&addr=t:26379&namespace=a.b_c": "[s:26379 t:26379]   0 false main a.b_c",
		"redis://[::1]:7?cluster=true":                             "[[::1]:7]   0 false  caisson",
	} {
		o, err := ParseURL(text)
		got := fmt.Sprint(o.Addrs, " ", o.Username, " ", o.Password, " ", o.DB, " ", o.TLS != nil, " ", o.Master, " ", o.namespace())
		if err != nil || got != want {
			t.Errorf("ParseURL(%q) = %s, %v; want %s", text, got, err, want)
		}
		if s := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(s, "hush") {
			t.Errorf("formatted options show the password: %s", s)
		}
	}
	for _, text := range []string{
		"", "h:6379", "http://hush@h", "redis://", "redis://:hush@", "redis://hush:hush@h:99999999/x", "redis://h/hush", "redis://h/-1", "redis://h?hush=1",
		"redis://h?db=1&db=2", "redis://h?cluster=hush", "redis://h/1?cluster=true", "redis://h?master=m&cluster=true", "redis://h?namespace={hush}",
		"unix://hush", "unix://hush/x", "redis://hush:%zz@h", "redis://h?addr=", "redis://h?a;hush",
	} {
		_, err := ParseURL(text)
		var f *binding.FieldError
		if !errors.As(err, &f) || strings.Contains(err.Error(), "hush") {
			t.Errorf("ParseURL(%q) = %v, want a FieldError that does not repeat it", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	e := &Engine{namespace: "caisson"}
	for _, k := range []binding.Key{acme, {Tenant: "a:b", Session: "c:d"}, {Tenant: "é", Session: "}"}} {
		f.Add(e.keys(k).binding())
	}
	f.Fuzz(func(t *testing.T, name string) {
		if k, ok := e.parse(name); ok && (e.keys(k).binding() != name || k.Validate() != nil) {
			t.Errorf("%q is read as %v", name, k)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("v", "1", "tenant", "acme", "session", "s", "created", "5")
	f.Add("v", "2", "", "", "stale", "x", "token", "hush")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i string) {
		hash := []any{a, b, c, d, e, g, h, i, "provider", "p", "sandbox", "x"}
		got, bound, err := decode(acme, hash)
		if bound != (err == nil) || (bound && (got.Validate() != nil || got.Key != acme)) {
			t.Errorf("decode = %v, %v, %v", got, bound, err)
		}
	})
}
