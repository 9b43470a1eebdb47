package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// admitted asks with a fresh token of kid; status 0 means admitted.
func admitted(t *testing.T, a *Admission, c *clock, kid string) int {
	t.Helper()
	now := c.now()
	token := sign(t, kid, map[string]any{"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Minute).Unix()})
	_, err := a.Admit(request(bearer(token)))
	if err != nil {
		return refusal(t, err).Status
	}
	return 0
}

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestKeyRotation(t *testing.T) {
	i, c := newIssuer(t, "rs1"), &clock{t: testTime}
	a := newAdmission(t, Config{Bearer: testBearer(i, c.now)})
	want(t, "first key", admitted(t, a, c, "rs1"), 0)
	i.publish("rs1", "rs2")
	// The set was fetched only just now, so the new key is unknown for a moment.
	want(t, "new key at once", admitted(t, a, c, "rs2"), 401)
	c.advance(refetchEvery)
	want(t, "new key", admitted(t, a, c, "rs2"), 0)
	want(t, "old key beside it", admitted(t, a, c, "rs1"), 0)
	want(t, "fetches", int(i.fetches.Load()), 2)
	// A withdrawn key ends with the next refresh.
	i.publish("rs2")
	c.advance(refreshAfter + time.Second)
	admitted(t, a, c, "rs2")
	a.bearer.keys.wg.Wait() // the refresh runs behind the request
	want(t, "withdrawn key", admitted(t, a, c, "rs1"), 401)
	want(t, "remaining key", admitted(t, a, c, "rs2"), 0)
	want(t, "fetches", int(i.fetches.Load()), 3)
}

// Invented key ids cost one fetch per interval, however many they are.
func TestKeyIDFlood(t *testing.T) {
	i, c := newIssuer(t, "rs1"), &clock{t: testTime}
	a := newAdmission(t, Config{Bearer: testBearer(i, c.now)})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	flood := func() {
		var wg sync.WaitGroup
		for n := range 50 {
			token := signAs(t, fmt.Sprintf("kid-%d", n), jose.ES256, stranger, nil, goodClaims(nil))
			wg.Go(func() {
				_, err := a.Admit(request(bearer(token)))
				if e := refusal(t, err); e.Status != 401 {
					t.Errorf("refusal %v", e)
				}
			})
		}
		wg.Wait()
	}
	flood()
	want(t, "fetches", int(i.fetches.Load()), 1)
	c.advance(refetchEvery - time.Millisecond)
	flood()
	want(t, "fetches", int(i.fetches.Load()), 1)
	c.advance(time.Millisecond)
	flood()
	want(t, "fetches", int(i.fetches.Load()), 2)
	want(t, "good token", admitted(t, a, c, "rs1"), 0)
}

// Known keys outlive an outage for a while; what cannot be known is 503.
func TestIssuerOutage(t *testing.T) {
	i, c := newIssuer(t, "rs1"), &clock{t: testTime}
	a := newAdmission(t, Config{Bearer: testBearer(i, c.now), Keys: []Key{{"main", testSecret}}})
	i.fail()
	want(t, "before any key", admitted(t, a, c, "rs1"), 503)
	want(t, "again at once", admitted(t, a, c, "rs1"), 503)
	want(t, "fetches", int(i.fetches.Load()), 1)
	_, err := a.Admit(request(http.Header{"X-Api-Key": {testSecret}, "Authorization": {"Bearer " + sign(t, "rs1", nil)}}))
	wantStatus(t, err, 503, "auth_unavailable")
	if e := refusal(t, err); e.RetryAfter <= 0 {
		t.Error("no time to retry after")
	}
	if _, err := a.Admit(request(http.Header{"X-Api-Key": {testSecret}})); err != nil {
		t.Errorf("the service key does not need the issuer: %v", err)
	}

	i.publish("rs1")
	c.advance(retryEvery)
	want(t, "issuer back", admitted(t, a, c, "rs1"), 0)

	i.fail()
	c.advance(refreshAfter + time.Second)
	want(t, "outage, known key", admitted(t, a, c, "rs1"), 0)
	a.bearer.keys.wg.Wait()
	want(t, "outage, unknown key", admitted(t, a, c, "rs2"), 503)
	c.advance(staleAfter - refreshAfter - time.Second)
	want(t, "outage, at the end of the stale time", admitted(t, a, c, "rs1"), 0)
	a.bearer.keys.wg.Wait()
	c.advance(time.Second)
	want(t, "outage, too long", admitted(t, a, c, "rs1"), 503)
	i.publish("rs1")
	c.advance(retryEvery)
	want(t, "issuer back", admitted(t, a, c, "rs1"), 0)
}

func TestBadKeySets(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	jwk := func(k jose.JSONWebKey) string {
		b, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rs1 := jose.JSONWebKey{Key: testKeys()["rs1"], KeyID: "rs1"}
	public := rs1.Public()
	asEncryption, asPS256 := public, public
	asEncryption.Use, asPS256.Algorithm = "enc", "PS256"
	good := jwk(public)
	tests := []struct {
		name, body string
		ok         bool
	}{
		{"good", `{"keys":[` + good + `]}`, true},
		{"malformed member of a key", `{"x":1,"keys":[` + strings.TrimSuffix(good, "}") + `,"x5t":"?"}]}`, false},
		{"unknown kinds beside a good key", `{"keys":[{"kty":"XYZ"},{"kty":"OKP","crv":"Ed448","x":"AA"},{"kty":"oct","k":"c2VjcmV0","kid":"rs1"},{},null,7,` + good + `]}`, true},
		{"a private key is used as public", `{"keys":[` + jwk(rs1) + `]}`, true},
		{"encryption key", `{"keys":[` + jwk(asEncryption) + `]}`, false},
		{"key of another algorithm", `{"keys":[` + jwk(asPS256) + `]}`, false},
		{"secret only", `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"rs1"}]}`, false},
		{"weak key", `{"keys":[` + jwk(jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "rs1"}) + `]}`, false},
		{"empty set", `{"keys":[]}`, false},
		{"no set", `{}`, false},
		{"no JSON", `<html>`, false},
		{"empty", ``, false},
		{"too many keys", `{"keys":[` + strings.Repeat(good+",", maxKeys) + good + `]}`, false},
		{"too large", `{"keys":[` + good + `],"x":"` + strings.Repeat("x", maxKeySet) + `"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, c := newIssuer(t), &clock{t: testTime}
			i.respond(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) })
			a := newAdmission(t, Config{Bearer: testBearer(i, c.now)})
			status := 503
			if tt.ok {
				status = 0
			}
			want(t, "status", admitted(t, a, c, "rs1"), status)
		})
	}
}

// What the key set address answers is neither followed nor waited for without end.
func TestHostileIssuer(t *testing.T) {
	i, c := newIssuer(t, "rs1"), &clock{t: testTime}
	elsewhere := newIssuer(t, "rs1")
	i.respond(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	a := newAdmission(t, Config{Bearer: testBearer(i, c.now)})
	want(t, "redirect", admitted(t, a, c, "rs1"), 503)
	want(t, "fetches elsewhere", int(elsewhere.fetches.Load()), 0)

	// A body without end is cut off.
	i.respond(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	c.advance(retryEvery)
	want(t, "endless", admitted(t, a, c, "rs1"), 503)

	// An answer that never comes keeps a caller no longer than the caller
	// waits, and Close ends it.
	asked := make(chan struct{})
	i.respond(func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	c.advance(retryEvery)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := a.Admit(request(bearer(sign(t, "rs1", nil))).WithContext(ctx))
	wantStatus(t, err, 503, "auth_unavailable")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "after close", admitted(t, a, c, "rs1"), 503)
}

// The issuer over TLS: an unknown certificate is refused, a trusted one serves.
func TestIssuerTLS(t *testing.T) {
	body := keySetJSON("rs1")
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of the refused handshake
	srv.StartTLS()
	defer srv.Close()
	c := &clock{t: testTime}
	b := Bearer{Issuer: testIssuer, Audiences: []string{testAudience}, JWKSURL: srv.URL, now: c.now}
	want(t, "unknown certificate", admitted(t, newAdmission(t, Config{Bearer: &b}), c, "rs1"), 503)
	b.Transport = srv.Client().Transport
	want(t, "trusted certificate", admitted(t, newAdmission(t, Config{Bearer: &b}), c, "rs1"), 0)
}
