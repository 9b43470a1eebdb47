package admission

import (
	"errors"
	"strings"

	"github.com/caisson-run/caisson/host"
)

// verified is what checking the credentials of one request has established.
type verified struct {
	token *claims // nil: no token
	keyID string  // empty: no service key
}

// tenant decides which organisation a request acts for: that of its verified
// token; else, for a verified service key, the deployment's own; else none. It
// is the only place that decides it, and it is given facts, not the request, so
// that nothing a caller wrote can be consulted.
func tenant(v verified, brandOrg string) (org string, via host.Via, err error) {
	switch {
	case v.token != nil && v.token.org != "":
		return v.token.org, host.ViaBearer, nil
	case v.token != nil:
		return "", "", forbidden("the token names no organisation", nil)
	case v.keyID != "":
		return brandOrg, host.ViaServiceKey, nil
	default:
		return "", "", unauthorized("a service key or a bearer token is required", nil)
	}
}

const (
	maxOrg  = 128
	maxUser = 255 // OpenID Connect Core §2 bounds "sub" to 255 ASCII characters
)

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// checkOrg says what is wrong with s as the name of an organisation or wallet.
// Names end up in labels, keys and reports of other systems; what could climb
// or split a path there is refused here.
func checkOrg(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxOrg:
		return errors.New("is longer than 128 characters")
	case strings.Trim(s, alphanumeric+"_.:@/-") != "":
		return errors.New("may hold only letters, digits and _ . : @ / -")
	case !strings.ContainsRune(alphanumeric+"_", rune(s[0])):
		return errors.New("must begin with a letter, a digit or _")
	case strings.Contains(s, ".."), strings.Contains(s, "//"), strings.HasSuffix(s, "/"):
		return errors.New("must not hold .. or // nor end with /")
	}
	return nil
}

// checkUser says what is wrong with s as a user. Besides what organisations
// may hold, issuers put | = + ~ into their subjects.
func checkUser(s string) error {
	switch {
	case len(s) > maxUser:
		return errors.New("is longer than 255 characters")
	case strings.Trim(s, alphanumeric+"_.:@/-|=+~") != "":
		return errors.New("may hold only letters, digits and _ . : @ / - | = + ~")
	}
	return nil
}
