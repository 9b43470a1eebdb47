package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// minCredential is how many bytes a credential has at least.
const minCredential = 16

// guard lets requests through to next that carry the credential as a bearer token.
func guard(credential string, next http.Handler) (http.Handler, error) {
	if len(credential) < minCredential {
		return nil, errors.New("the credential of the admin address is shorter than 16 bytes")
	}
	want := sha256.Sum256([]byte(credential))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(token))
		if !strings.EqualFold(scheme, "bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="caisson admin"`)
			reply(w, http.StatusUnauthorized, failure{Error: "this address needs the admin credential"})
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
