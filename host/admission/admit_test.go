package admission

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
)

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Every combination of the credentials a request can carry.
func TestAdmit(t *testing.T) {
	i := newIssuer(t, "rs1")
	good := sign(t, "rs1", nil)
	expired := sign(t, "rs1", map[string]any{"exp": testTime.Add(-time.Hour).Unix()})
	noOrg := sign(t, "rs1", map[string]any{"org_id": nil})
	unknown := sign(t, "rs2", nil)

	keys := []Key{{"main", testSecret}, {"second", "other secret"}, {"main", "the next secret"}}
	both := newAdmission(t, Config{Keys: keys, Bearer: testBearer(i, fixed), ServiceKeyWallet: "house"})
	onlyKeys := newAdmission(t, Config{Keys: keys, BrandOrg: "brand"})
	onlyBearer := newAdmission(t, Config{Bearer: testBearer(i, fixed)})
	neither := newAdmission(t, Config{})

	brand := host.Principal{Org: "default", Via: host.ViaServiceKey, KeyID: "main", Payer: "house"}
	user := host.Principal{Org: "acme", User: "ann", Via: host.ViaBearer, Payer: "acme"}
	userWithKey := user
	userWithKey.KeyID = "main"

	tests := []struct {
		name      string
		admission *Admission
		key       []string // X-API-Key
		auth      []string // Authorization
		want      host.Principal
		status    int
		code      string
	}{
		{"nothing", both, nil, nil, host.Principal{}, 401, "unauthorized"},
		{"key", both, []string{testSecret}, nil, brand, 0, ""},
		{"key under rotation", both, []string{"the next secret"}, nil, brand, 0, ""},
		{"wrong key", both, []string{"wrong"}, nil, host.Principal{}, 401, "unauthorized"},
		{"prefix of a key", both, []string{testSecret[:5]}, nil, host.Principal{}, 401, "unauthorized"},
		{"key and more", both, []string{testSecret + "x"}, nil, host.Principal{}, 401, "unauthorized"},
		{"key in other case", both, []string{strings.ToUpper(testSecret)}, nil, host.Principal{}, 401, "unauthorized"},
		{"empty key", both, []string{""}, nil, host.Principal{}, 401, "unauthorized"},
		{"blank key", both, []string{"  "}, nil, host.Principal{}, 401, "unauthorized"},
		{"two keys", both, []string{testSecret, "wrong"}, nil, host.Principal{}, 401, "unauthorized"},
		{"a key twice", both, []string{testSecret, testSecret}, nil, host.Principal{}, 401, "unauthorized"},
		{"keys folded into one line", both, []string{testSecret + ", " + testSecret}, nil, host.Principal{}, 401, "unauthorized"},
		{"huge key", both, []string{strings.Repeat("k", maxHeader+1)}, nil, host.Principal{}, 401, "unauthorized"},

		{"basic, key as user", both, nil, []string{basicAuth(testSecret, "")}, brand, 0, ""},
		{"basic, key as password", both, nil, []string{basicAuth("anyone", testSecret)}, brand, 0, ""},
		{"basic, no user", both, nil, []string{basicAuth("", testSecret)}, brand, 0, ""},
		{"basic, key as both", both, nil, []string{basicAuth(testSecret, testSecret)}, brand, 0, ""},
		{"basic, scheme in lower case", both, nil, []string{"b" + basicAuth(testSecret, "")[1:]}, brand, 0, ""},
		{"basic, wrong", both, nil, []string{basicAuth("anyone", "wrong")}, host.Principal{}, 401, "unauthorized"},
		{"basic, empty", both, nil, []string{basicAuth("", "")}, host.Principal{}, 401, "unauthorized"},
		{"basic, two keys", both, nil, []string{basicAuth(testSecret, "other secret")}, host.Principal{}, 401, "unauthorized"},
		{"basic, no base64", both, nil, []string{"Basic %%%"}, host.Principal{}, 401, "unauthorized"},
		{"basic, no colon", both, nil, []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(testSecret))}, host.Principal{}, 401, "unauthorized"},
		{"basic beside the same key", both, []string{testSecret}, []string{basicAuth("x", testSecret)}, brand, 0, ""},
		{"basic beside another key", both, []string{testSecret}, []string{basicAuth("x", "other secret")}, host.Principal{}, 401, "unauthorized"},
		{"wrong basic beside a key", both, []string{testSecret}, []string{basicAuth("x", "wrong")}, host.Principal{}, 401, "unauthorized"},
		{"basic beside a wrong key", both, []string{"wrong"}, []string{basicAuth("x", testSecret)}, host.Principal{}, 401, "unauthorized"},

		{"bearer", both, nil, []string{"Bearer " + good}, user, 0, ""},
		{"bearer, scheme in capitals", both, nil, []string{"BEARER   " + good}, user, 0, ""},
		{"bearer without token", both, nil, []string{"Bearer"}, host.Principal{}, 401, "unauthorized"},
		{"bearer with two tokens", both, nil, []string{"Bearer " + good + " " + good}, host.Principal{}, 401, "unauthorized"},
		{"bearer with a list", both, nil, []string{"Bearer " + good + ", Basic x"}, host.Principal{}, 401, "unauthorized"},
		{"bearer header twice", both, nil, []string{"Bearer " + good, "Bearer " + good}, host.Principal{}, 401, "unauthorized"},
		{"bearer and basic headers", both, nil, []string{"Bearer " + good, basicAuth("x", testSecret)}, host.Principal{}, 401, "unauthorized"},
		{"bearer with a service key", both, nil, []string{"Bearer " + testSecret}, host.Principal{}, 401, "unauthorized"},
		{"expired bearer", both, nil, []string{"Bearer " + expired}, host.Principal{}, 401, "unauthorized"},
		{"bearer of an unknown key", both, nil, []string{"Bearer " + unknown}, host.Principal{}, 401, "unauthorized"},
		{"bearer without org", both, nil, []string{"Bearer " + noOrg}, host.Principal{}, 403, "forbidden"},
		{"other scheme", both, nil, []string{"Digest x"}, host.Principal{}, 401, "unauthorized"},
		{"bare token", both, nil, []string{good}, host.Principal{}, 401, "unauthorized"},
		{"empty authorization", both, nil, []string{""}, host.Principal{}, 401, "unauthorized"},
		{"huge authorization", both, nil, []string{"Bearer " + strings.Repeat("a", maxHeader)}, host.Principal{}, 401, "unauthorized"},

		{"key and bearer", both, []string{testSecret}, []string{"Bearer " + good}, userWithKey, 0, ""},
		{"key and expired bearer", both, []string{testSecret}, []string{"Bearer " + expired}, host.Principal{}, 401, "unauthorized"},
		{"key and undefined bearer", both, []string{testSecret}, []string{"Bearer undefined"}, host.Principal{}, 401, "unauthorized"},
		{"key and empty bearer", both, []string{testSecret}, []string{"Bearer "}, host.Principal{}, 401, "unauthorized"},
		{"key and empty authorization", both, []string{testSecret}, []string{""}, host.Principal{}, 401, "unauthorized"},
		{"key and bearer without org", both, []string{testSecret}, []string{"Bearer " + noOrg}, host.Principal{}, 403, "forbidden"},
		{"wrong key and bearer", both, []string{"wrong"}, []string{"Bearer " + good}, host.Principal{}, 401, "unauthorized"},
		{"empty key and bearer", both, []string{""}, []string{"Bearer " + good}, host.Principal{}, 401, "unauthorized"},

		{"only keys: key", onlyKeys, []string{"other secret"}, nil, host.Principal{Org: "brand", Via: host.ViaServiceKey, KeyID: "second"}, 0, ""},
		{"only keys: bearer", onlyKeys, nil, []string{"Bearer " + good}, host.Principal{}, 401, "unauthorized"},
		{"only keys: key and bearer", onlyKeys, []string{testSecret}, []string{"Bearer " + good}, host.Principal{Org: "brand", Via: host.ViaServiceKey, KeyID: "main"}, 0, ""},
		{"only keys: wrong key and bearer", onlyKeys, []string{"wrong"}, []string{"Bearer " + good}, host.Principal{}, 401, "unauthorized"},
		{"only bearer: bearer", onlyBearer, nil, []string{"Bearer " + good}, user, 0, ""},
		{"only bearer: key", onlyBearer, []string{testSecret}, nil, host.Principal{}, 401, "unauthorized"},
		{"only bearer: empty key", onlyBearer, []string{""}, nil, host.Principal{}, 401, "unauthorized"},
		{"only bearer: key and bearer", onlyBearer, []string{testSecret}, []string{"Bearer " + good}, host.Principal{}, 401, "unauthorized"},

		{"neither: nothing", neither, nil, nil, host.Principal{}, 503, "not_configured"},
		{"neither: key", neither, []string{testSecret}, nil, host.Principal{}, 503, "not_configured"},
		{"neither: empty key", neither, []string{""}, nil, host.Principal{}, 503, "not_configured"},
		{"neither: bearer", neither, nil, []string{"Bearer " + good}, host.Principal{}, 503, "not_configured"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.key != nil {
				h["X-Api-Key"] = tt.key
			}
			if tt.auth != nil {
				h["Authorization"] = tt.auth
			}
			got, err := tt.admission.Admit(request(h))
			if tt.status != 0 {
				wantStatus(t, err, tt.status, tt.code)
				if got != (host.Principal{}) {
					t.Errorf("a refusal comes with principal %+v", got)
				}
				for _, secret := range append(tt.key, tt.auth...) {
					if len(secret) > 8 && strings.Contains(err.Error(), secret) {
						t.Errorf("the error repeats a credential: %v", err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("Admit = %+v\nwant    %+v", got, tt.want)
			}
		})
	}
}

// Nothing a caller writes beside its credentials changes who it is.
func TestCallerCannotNameTheTenant(t *testing.T) {
	i := newIssuer(t, "rs1")
	a := newAdmission(t, Config{Keys: []Key{{"main", testSecret}}, Bearer: testBearer(i, fixed)})
	credentials := map[string]http.Header{
		"key":    {"X-Api-Key": {testSecret}},
		"bearer": bearer(sign(t, "rs1", nil)),
		"both":   {"X-Api-Key": {testSecret}, "Authorization": {"Bearer " + sign(t, "rs1", nil)}},
	}
	forged := []string{
		"X-Org", "X-Org-Id", "X-IAM-Org-Id", "X-IAM-Org", "X-Tenant", "X-Tenant-Id", "X-User", "X-User-Id", "User-Id", "X-Hanzo-Org",
		"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Org",
		"Forwarded", "X-Real-Ip", "X-Auth-Request-User", "Remote-User", "X-Payer", "X-Wallet", "X-Project", "X-Project-Id",
		"X-Request-Id", "X-Correlation-Id", "X-Key-Id", "X-Service-Key", "Api-Key", "X-Api-Key-Id", "Proxy-Authorization", "Cookie", "From", "Host",
	}
	for name, h := range credentials {
		plain, err := a.Admit(request(h))
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range forged {
			r := httptest.NewRequest(http.MethodPost, "/v1/exec?org=evil&org_id=evil&tenant=evil&user=evil&user_id=evil&payer=evil&api_key=evil&access_token=evil",
				io.NopCloser(unreadable{t}))
			for k, v := range h {
				r.Header[k] = v
			}
			r.Header.Set(header, "evil")
			r.Host = "evil.example"
			r.RemoteAddr = "127.0.0.1:1"
			got, err := a.Admit(r)
			if err != nil {
				t.Fatalf("%s with %s: %v", name, header, err)
			}
			if got != plain {
				t.Errorf("%s with %s: %+v, without: %+v", name, header, got, plain)
			}
		}
	}
	// Without credentials none of them admits.
	for _, header := range forged {
		_, err := a.Admit(request(http.Header{http.CanonicalHeaderKey(header): {testSecret}}))
		wantStatus(t, err, 401, "unauthorized")
	}
}

// unreadable is a body that admission must leave alone.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("admission reads the body")
	return 0, io.EOF
}

// Credentials over the wire, where net/http has its say about headers first.
func TestAdmitOverHTTP(t *testing.T) {
	i := newIssuer(t, "rs1")
	a := newAdmission(t, Config{Keys: []Key{{"main", testSecret}}, Bearer: testBearer(i, fixed)})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := a.Admit(r)
		if err != nil {
			if e := refusal(t, err); e.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", a.challenge())
				w.WriteHeader(e.Status)
			}
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", p.Org, p.KeyID)
	}))
	defer srv.Close()
	get := func(url string, h http.Header) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range h {
			req.Header[k] = v
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	body := func(resp *http.Response) string {
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := body(get(srv.URL, http.Header{"x-api-key": {" " + testSecret + " "}})); got != "default main" {
		t.Errorf("key in a lower-case header with space around: %q", got)
	}
	// The key in the address, as self-hosted chat servers are told to do.
	withUser := strings.Replace(srv.URL, "http://", "http://"+strings.ReplaceAll(testSecret, " ", "%20")+"@", 1)
	if got := body(get(withUser, nil)); got != "default main" {
		t.Errorf("key as user of the address: %q", got)
	}
	resp := get(srv.URL, nil)
	body(resp)
	if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != `Bearer realm="caisson", Basic realm="caisson", charset="UTF-8"` {
		t.Errorf("no credential: %d, WWW-Authenticate %q", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
	srv.Client().CloseIdleConnections()
}

func TestNewRefuses(t *testing.T) {
	good := Bearer{Issuer: "i", Audiences: []string{"a"}, JWKSURL: "https://i.example/keys"}
	edit := func(f func(*Bearer)) *Bearer { b := good; f(&b); return &b }
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"key without id", Config{Keys: []Key{{"", "s"}}}, `service key "": id must be`},
		{"key with odd id", Config{Keys: []Key{{"a b", "s"}}}, "id must be"},
		{"key without secret", Config{Keys: []Key{{"a", ""}}}, `service key "a": secret is empty`},
		{"key of blanks", Config{Keys: []Key{{"a", " \t"}}}, "secret is empty"},
		{"key with a line break", Config{Keys: []Key{{"a", "s\n"}}}, "space around"},
		{"key with a control character", Config{Keys: []Key{{"a", "s\x00s"}}}, "printable ASCII"},
		{"key not ASCII", Config{Keys: []Key{{"a", "clé"}}}, "printable ASCII"},
		{"huge key", Config{Keys: []Key{{"a", strings.Repeat("s", 1025)}}}, "longer than 1024"},
		{"one secret, two ids", Config{Keys: []Key{{"a", "s"}, {"b", "s"}}}, `service key "b": has the secret of service key "a"`},
		{"brand org", Config{BrandOrg: "../x"}, "brand org"},
		{"wallet", Config{ServiceKeyWallet: "a b"}, "service key wallet"},
		{"no issuer", Config{Bearer: edit(func(b *Bearer) { b.Issuer = "" })}, "issuer is empty"},
		{"no audience", Config{Bearer: edit(func(b *Bearer) { b.Audiences = nil })}, "audiences"},
		{"empty audience", Config{Bearer: edit(func(b *Bearer) { b.Audiences = []string{""} })}, "audiences"},
		{"leeway", Config{Bearer: edit(func(b *Bearer) { b.Leeway = time.Hour })}, "leeway 1h0m0s is not from 0 to 5m0s"},
		{"negative leeway", Config{Bearer: edit(func(b *Bearer) { b.Leeway = -1 })}, "leeway"},
		{"no url", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "" })}, "jwks url: is empty"},
		{"malformed url", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "https://u:secret@h:port:x" })}, "jwks url: is malformed"},
		{"plain http", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "http://i.example/keys" })}, "loopback"},
		{"plain http on a private address", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "http://10.0.0.1/keys" })}, "loopback"},
		{"looks like loopback", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "http://127.0.0.1.example/keys" })}, "loopback"},
		{"other scheme", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "file:///etc/keys" })}, "jwks url"},
		{"credentials", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "https://u:secret@i.example/keys" })}, "must not hold credentials"},
		{"fragment", Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = "https://i.example/keys#x" })}, "fragment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := New(tt.cfg)
			if err == nil {
				t.Fatalf("New = %+v", a)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret@") {
				t.Errorf("New = %v, want %q and no password", err, tt.want)
			}
		})
	}
	for _, u := range []string{"https://i.example/keys", "http://localhost:1/k", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1/k"} {
		a, err := New(Config{Bearer: edit(func(b *Bearer) { b.JWKSURL = u })})
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		a.Close()
	}
}

func TestKeysFromEnv(t *testing.T) {
	for value, want := range map[string]string{"": "", " \n": "", testSecret: testSecret, " k\n": "k"} {
		keys := KeysFromEnv(func(name string) (string, bool) { return value, name == "CODE_EXEC_API_KEY" })
		if want == "" {
			if len(keys) != 0 {
				t.Errorf("%q gives keys", value)
			}
			// Fail closed: nothing, least of all an empty key, gets in.
			a := newAdmission(t, Config{Keys: keys})
			_, err := a.Admit(request(http.Header{"X-Api-Key": {value}}))
			wantStatus(t, err, 503, "not_configured")
			continue
		}
		if len(keys) != 1 || keys[0].Secret != want || keys[0].ID != EnvKeyID {
			t.Errorf("%q gives %d keys", value, len(keys))
		}
	}
	if keys := KeysFromEnv(func(string) (string, bool) { return "", false }); keys != nil {
		t.Error("an unset variable gives keys")
	}
}

func TestKeyDoesNotPrintItsSecret(t *testing.T) {
	k := Key{ID: "main", Secret: testSecret}
	text, err := k.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %q %x %d %v", k, k, k, k, &k, []Key{k}), string(text)} {
		if strings.Contains(s, testSecret) || strings.Contains(s, fmt.Sprintf("%x", testSecret)) {
			t.Errorf("%q holds the secret", s)
		}
	}
}

func TestReady(t *testing.T) {
	if err := newAdmission(t, Config{}).Ready(t.Context()); err == nil {
		t.Error("ready with nothing configured")
	}
	if err := newAdmission(t, Config{Keys: []Key{{"a", "s"}}}).Ready(t.Context()); err != nil {
		t.Error(err)
	}
	i := newIssuer(t, "rs1")
	c := &clock{t: testTime}
	a := newAdmission(t, Config{Bearer: testBearer(i, c.now)})
	i.fail()
	if err := a.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "status 502") {
		t.Errorf("Ready without keys = %v", err)
	}
	i.publish("rs1")
	c.advance(retryEvery)
	for range 3 {
		if err := a.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := i.fetches.Load(); n != 2 {
		t.Errorf("%d fetches", n)
	}
	var none *host.HTTPError
	if errors.As(a.Ready(t.Context()), &none) {
		t.Error("ready is an HTTP error")
	}
}
