package admission

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testIssuer   = "https://issuer.example"
	testAudience = "caisson"
	testSecret   = "correct horse battery staple"
)

var testTime = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// testKeys are made once; key generation is slow under the race detector.
var testKeys = sync.OnceValue(func() map[string]any {
	must := func(key any, err error) any {
		if err != nil {
			panic(err)
		}
		return key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	return map[string]any{
		"rs1": must(rsa.GenerateKey(rand.Reader, 2048)),
		"rs2": must(rsa.GenerateKey(rand.Reader, 2048)),
		"es1": must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		"ed1": must(ed, err),
	}
})

var testAlgorithms = map[string]jose.SignatureAlgorithm{
	"rs1": jose.RS256, "rs2": jose.RS256, "es1": jose.ES256, "ed1": jose.EdDSA,
}

// issuer is a real server of a key set.
type issuer struct {
	*httptest.Server
	fetches atomic.Int32

	mu     sync.Mutex
	answer http.HandlerFunc
}

func newIssuer(t testing.TB, kids ...string) *issuer {
	t.Helper()
	i := &issuer{}
	i.publish(kids...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		i.mu.Lock()
		answer := i.answer
		i.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) respond(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = h
}

func (i *issuer) publish(kids ...string) {
	body := keySetJSON(kids...)
	i.respond(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
}

func (i *issuer) fail() {
	i.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
}

func keySetJSON(kids ...string) []byte {
	var set jose.JSONWebKeySet
	for _, kid := range kids {
		private := jose.JSONWebKey{Key: testKeys()[kid], KeyID: kid}
		set.Keys = append(set.Keys, private.Public())
	}
	body, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return body
}

// goodClaims are the claims of an acceptable token, changed by the given ones;
// a nil value removes a claim.
func goodClaims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": testIssuer, "aud": testAudience, "sub": "ann", "org_id": "acme",
		"iat": testTime.Unix(), "nbf": testTime.Unix(), "exp": testTime.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func sign(t testing.TB, kid string, changes map[string]any) string {
	t.Helper()
	return signAs(t, kid, testAlgorithms[kid], testKeys()[kid], nil, goodClaims(changes))
}

func signAs(t testing.TB, kid string, alg jose.SignatureAlgorithm, key any, opt *jose.SignerOptions, claims any) string {
	t.Helper()
	if kid != "" {
		key = jose.JSONWebKey{Key: key, KeyID: kid}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opt)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// clock is a settable clock.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func testBearer(i *issuer, now func() time.Time) *Bearer {
	return &Bearer{Issuer: testIssuer, Audiences: []string{"other", testAudience}, JWKSURL: i.URL, now: now}
}

func fixed() time.Time { return testTime }

func newAdmission(t *testing.T, cfg Config) *Admission {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func request(headers http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/exec", nil)
	maps.Copy(r.Header, headers)
	return r
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// refusal returns the HTTPError in err, failing the test if there is none.
func refusal(t *testing.T, err error) *host.HTTPError {
	t.Helper()
	e, ok := err.(*host.HTTPError)
	if !ok {
		t.Fatalf("error %v (%T) is no *host.HTTPError", err, err)
	}
	return e
}

func wantStatus(t *testing.T, err error, status int, code string) {
	t.Helper()
	if e := refusal(t, err); e.Status != status || e.Code != code {
		t.Errorf("refusal %d %q (%v), want %d %q", e.Status, e.Code, e, status, code)
	}
}
