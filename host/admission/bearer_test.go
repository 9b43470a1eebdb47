package admission

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caisson-run/caisson/host"
)

func TestBearerClaims(t *testing.T) {
	i := newIssuer(t, "rs1", "es1", "ed1")
	at := func(d time.Duration) int64 { return testTime.Add(d).Unix() }
	type change = map[string]any
	tests := []struct {
		name   string
		claims change
		org    string
		user   string
		status int
		says   string
	}{
		{"good", nil, "acme", "ann", 0, ""},
		{"list of audiences", change{"aud": []string{"x", testAudience}}, "acme", "ann", 0, ""},
		{"no user", change{"sub": nil}, "acme", "", 0, ""},
		{"no nbf and iat", change{"nbf": nil, "iat": nil}, "acme", "ann", 0, ""},
		{"expired within leeway", change{"exp": at(-59 * time.Second)}, "acme", "ann", 0, ""},
		{"expired", change{"exp": at(-61 * time.Second)}, "", "", 401, "has expired"},
		{"no expiry", change{"exp": nil}, "", "", 401, "no expiry"},
		{"expiry in words", change{"exp": "tomorrow"}, "", "", 401, "not valid"},
		{"not before, within leeway", change{"nbf": at(59 * time.Second)}, "acme", "ann", 0, ""},
		{"not before", change{"nbf": at(61 * time.Second)}, "", "", 401, "not valid yet"},
		{"issued later", change{"iat": at(61 * time.Second)}, "", "", 401, "not valid yet"},
		{"other issuer", change{"iss": "https://evil.example"}, "", "", 401, "not valid"},
		{"issuer with a slash", change{"iss": testIssuer + "/"}, "", "", 401, "not valid"},
		{"no issuer", change{"iss": nil}, "", "", 401, "not valid"},
		{"other audience", change{"aud": "x"}, "", "", 401, "another audience"},
		{"no audience", change{"aud": nil}, "", "", 401, "another audience"},
		{"no org", change{"org_id": nil}, "", "", 403, "names no organisation"},
		{"empty org", change{"org_id": ""}, "", "", 403, "names no organisation"},
		{"org under another name", change{"org_id": nil, "org": "acme"}, "", "", 403, "names no organisation"},
		{"org in other case", change{"org_id": nil, "ORG_ID": "acme"}, "", "", 403, "names no organisation"},
		{"org is a number", change{"org_id": 7}, "", "", 403, "names no organisation"},
		{"org is a list", change{"org_id": []string{"acme"}}, "", "", 403, "names no organisation"},
		{"org climbs", change{"org_id": "../default"}, "", "", 403, "names no organisation"},
		{"org with a line break", change{"org_id": "acme\nX-Org: evil"}, "", "", 403, "names no organisation"},
		{"org with a null", change{"org_id": "acme\x00"}, "", "", 403, "names no organisation"},
		{"org too long", change{"org_id": strings.Repeat("x", 129)}, "", "", 403, "names no organisation"},
		{"user with a space", change{"sub": "an n"}, "", "", 403, "names no user"},
		{"user is a number", change{"sub": 7}, "", "", 401, "not valid"},
	}
	a := newAdmission(t, Config{Bearer: testBearer(i, fixed)})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, kid := range []string{"rs1", "es1", "ed1"} {
				p, err := a.Admit(request(bearer(sign(t, kid, tt.claims))))
				if tt.status != 0 {
					e := refusal(t, err)
					if e.Status != tt.status || !strings.Contains(e.Message, tt.says) {
						t.Errorf("%s: refusal %d %q, want %d %q", kid, e.Status, e.Message, tt.status, tt.says)
					}
					continue
				}
				if err != nil || p.Org != tt.org || p.User != tt.user || p.Payer != host.Payer(tt.org) || p.Via != host.ViaBearer || p.KeyID != "" {
					t.Errorf("%s: %+v, %v", kid, p, err)
				}
			}
		})
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of the keys", n)
	}
}

func TestConfiguredClaims(t *testing.T) {
	i := newIssuer(t, "es1")
	b := testBearer(i, fixed)
	b.OrgClaim, b.PayerClaim = "https://caisson.example/org", "payer"
	a := newAdmission(t, Config{Bearer: b})
	with := func(payer any) map[string]any {
		return map[string]any{"https://caisson.example/org": "umbrella", "payer": payer}
	}
	p, err := a.Admit(request(bearer(sign(t, "es1", with("umbrella/ann")))))
	if err != nil || p.Org != "umbrella" || p.Payer != "umbrella/ann" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, payer := range []any{nil, "", 3, "a b", "../x"} {
		_, err := a.Admit(request(bearer(sign(t, "es1", with(payer)))))
		wantStatus(t, err, 403, "forbidden")
	}
}

// forge puts together a token from parts of the attacker's choosing.
func forge(header, payload any, signature []byte) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(header) + "." + part(payload) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// signRaw signs a payload that need not be claims.
func signRaw(t *testing.T, kid, payload string) string {
	t.Helper()
	key := jose.JSONWebKey{Key: testKeys()[kid], KeyID: kid}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: testAlgorithms[kid], Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestForgedTokens(t *testing.T) {
	i := newIssuer(t, "rs1", "es1", "ed1")
	a := newAdmission(t, Config{Bearer: testBearer(i, fixed)})
	rsKey := testKeys()["rs1"].(*rsa.PrivateKey)
	edKey := testKeys()["ed1"].(ed25519.PrivateKey)
	der, err := x509.MarshalPKIXPublicKey(&rsKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	attacker, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encrypter, err := jose.NewEncrypter(jose.A128GCM, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: &rsKey.PublicKey}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jwe, err := encrypter.Encrypt([]byte(`{"org_id":"acme"}`))
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := jwe.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, "rs1", nil)
	parts := strings.Split(good, ".")
	claims := goodClaims(nil)
	evil := maps.Clone(claims)
	evil["org_id"] = "evil"
	evilJSON, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	type fields = map[string]any
	// A payload that names the tenant twice must not mean one thing to the
	// verifier and another to a reader.
	twice := strings.TrimSuffix(string(evilJSON), "}") + `,"org_id":"acme"}`

	for name, token := range map[string]string{
		"HS256 with the public key as PEM":    signAs(t, "rs1", jose.HS256, publicPEM, nil, claims),
		"HS256 with the public key as DER":    signAs(t, "rs1", jose.HS256, der, nil, claims),
		"HS256 with the public key's modulus": signAs(t, "rs1", jose.HS256, rsKey.N.Bytes(), nil, claims),
		"HS256 with the Ed25519 public key":   signAs(t, "ed1", jose.HS256, []byte(edKey.Public().(ed25519.PublicKey)), nil, claims),
		"none":                                forge(fields{"alg": "none", "kid": "rs1"}, claims, nil),
		"none in capitals":                    forge(fields{"alg": "NONE", "kid": "rs1"}, claims, nil),
		"none with a signature":               forge(fields{"alg": "none", "kid": "rs1"}, claims, []byte("x")),
		"no algorithm":                        forge(fields{"kid": "rs1"}, claims, []byte("x")),
		"RS512":                               signAs(t, "rs1", jose.RS512, rsKey, nil, claims),
		"PS256":                               signAs(t, "rs1", jose.PS256, rsKey, nil, claims),
		"ES384":                               signAs(t, "es1", jose.ES384, p384, nil, claims),
		"attacker's key":                      signAs(t, "rs1", jose.RS256, attacker, nil, claims),
		"attacker's key in the header":        signAs(t, "", jose.RS256, attacker, &jose.SignerOptions{EmbedJWK: true}, claims),
		"attacker's key in the header and a known id": signAs(t, "rs1", jose.RS256, attacker,
			(&jose.SignerOptions{}).WithHeader("jwk", jose.JSONWebKey{Key: &attacker.PublicKey}), claims),
		"attacker's key set in the header": signAs(t, "rs1", jose.RS256, attacker,
			(&jose.SignerOptions{}).WithHeader("jku", "http://127.0.0.1:1/keys"), claims),
		"unknown critical header": signAs(t, "rs1", jose.RS256, rsKey,
			(&jose.SignerOptions{}).WithHeader("crit", []string{"x"}).WithHeader("x", 1), claims),
		"key of another kind":        forge(fields{"alg": "ES256", "kid": "rs1"}, claims, make([]byte, 64)),
		"zero ECDSA signature":       forge(fields{"alg": "ES256", "kid": "es1"}, claims, make([]byte, 64)),
		"zero EdDSA signature":       forge(fields{"alg": "EdDSA", "kid": "ed1"}, claims, make([]byte, 64)),
		"empty signature":            parts[0] + "." + parts[1] + ".",
		"signature of another":       parts[0] + "." + base64.RawURLEncoding.EncodeToString(evilJSON) + "." + parts[2],
		"changed header":             base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"rs1","x":1}`)) + "." + parts[1] + "." + parts[2],
		"one part":                   parts[0],
		"two parts":                  parts[0] + "." + parts[1],
		"four parts":                 good + ".x",
		"encrypted":                  encrypted,
		"padded":                     good + "==",
		"claims name org twice":      signRaw(t, "rs1", twice),
		"claims are a list":          signRaw(t, "rs1", `["acme"]`),
		"header no JSON":             "e30." + parts[1] + "." + parts[2],
		"kid that climbs":            signAs(t, "../../etc/passwd", jose.RS256, attacker, nil, claims),
		"kid of SQL":                 signAs(t, "' OR 1=1 --", jose.RS256, attacker, nil, claims),
		"deeply nested header":       base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 9000))) + ".e30.e30",
		"no key id and no signature": forge(fields{"alg": "RS256"}, claims, []byte("x")),
	} {
		p, err := a.Admit(request(bearer(token)))
		if err == nil {
			t.Errorf("%s: admitted as %+v", name, p)
			continue
		}
		if e := refusal(t, err); e.Status != 401 || strings.Contains(e.Error(), token) {
			t.Errorf("%s: refusal %d %v", name, e.Status, e)
		}
	}
	// The same machinery admits the good one, and one without key id where
	// only one key is possible.
	for _, token := range []string{good, signAs(t, "", jose.RS256, rsKey, nil, claims)} {
		if _, err := a.Admit(request(bearer(token))); err != nil {
			t.Error(err)
		}
	}
}

// A token without key id is not tried against one key after another.
func TestNoKeyIDAmongSeveral(t *testing.T) {
	i := newIssuer(t, "rs1", "rs2", "es1")
	a := newAdmission(t, Config{Bearer: testBearer(i, fixed)})
	_, err := a.Admit(request(bearer(signAs(t, "", jose.RS256, testKeys()["rs1"], nil, goodClaims(nil)))))
	wantStatus(t, err, 401, "unauthorized")
	if _, err := a.Admit(request(bearer(signAs(t, "", jose.ES256, testKeys()["es1"], nil, goodClaims(nil))))); err != nil {
		t.Errorf("the only ES256 key: %v", err)
	}
}

// BenchmarkAdmit is what admission adds to a request, by credential:
//
//	go test -run - -bench Admit ./host/admission
func BenchmarkAdmit(b *testing.B) {
	i := newIssuer(b, "rs1", "es1", "ed1")
	a, err := New(Config{Keys: []Key{{"main", testSecret}}, Bearer: testBearer(i, fixed)})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for name, r := range map[string]*http.Request{
		"key":   request(http.Header{"X-Api-Key": {testSecret}}),
		"RS256": request(bearer(sign(b, "rs1", nil))),
		"ES256": request(bearer(sign(b, "es1", nil))),
		"EdDSA": request(bearer(sign(b, "ed1", nil))),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := a.Admit(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
