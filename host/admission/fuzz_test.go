package admission

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// FuzzCredentials: whatever the headers hold, nobody gets in without the key,
// and what is read was written.
func FuzzCredentials(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""},
		{testSecret, "Bearer a.b.c"},
		{"x", "Basic " + base64.StdEncoding.EncodeToString([]byte("a:b"))},
		{" ", "basic Og=="},
		{"\x00", "Bearer  =="},
		{"k", "Bearer\ta"},
		{"k", "Negotiate x"},
	} {
		f.Add(seed[0], seed[1], true, true)
	}
	a, err := New(Config{Keys: []Key{{"main", testSecret}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, auth string, withKey, withAuth bool) {
		h := http.Header{}
		if withKey {
			h.Set("X-API-Key", key)
		}
		if withAuth {
			h.Set("Authorization", auth)
		}
		c, err := readCredentials(h)
		if err != nil {
			if e := refusal(t, err); e.Status != 401 || !c.none() {
				t.Fatalf("refusal %v with %+v", e, c)
			}
		}
		if c.bearer != "" && (!isToken68(c.bearer) || !strings.HasSuffix(strings.TrimRight(auth, " "), c.bearer)) {
			t.Fatalf("token %q out of %q", c.bearer, auth)
		}
		if err == nil && c.none() != (!withKey && !withAuth) {
			t.Fatalf("credentials %+v out of key %v %q, authorization %v %q", c, withKey, key, withAuth, auth)
		}
		p, err := a.Admit(request(h))
		if err != nil {
			return
		}
		decoded, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(auth[min(len(auth), len("Basic ")):]))
		if (!withKey || key != testSecret) && (!withAuth || !strings.Contains(string(decoded), testSecret)) {
			t.Fatalf("admitted as %+v with key %q, authorization %q", p, key, auth)
		}
	})
}

// FuzzKeySet: no key set makes a key that is not fit for its algorithm.
func FuzzKeySet(f *testing.F) {
	f.Add(keySetJSON("rs1", "es1", "ed1"))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-256","x":"","y":""},null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := parseKeySet(body)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys and error %v", len(keys), err)
		}
		for _, k := range keys {
			if algorithmOf(k.Key) == "" || !k.IsPublic() {
				t.Fatalf("key %+v", k)
			}
		}
	})
}
