package admission

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// maxHeader bounds a credential header in bytes. Tokens of issuers that list
// every group of a user come to some 8 KiB.
const maxHeader = 16 << 10

// credentials are what a request's headers claim, nothing of it verified.
type credentials struct {
	// keys has one entry for each header that carries a service key: the
	// strings of which one must be a key.
	keys [][]string
	// bearer is a token of the right alphabet, or empty.
	bearer string
}

func (c credentials) none() bool { return len(c.keys) == 0 && c.bearer == "" }

// readCredentials reads X-API-Key and Authorization and nothing else. A header
// that is there must be there once, of bounded size and well-formed.
func readCredentials(h http.Header) (credentials, error) {
	var c credentials
	if value, ok, err := single(h, "X-API-Key"); err != nil {
		return credentials{}, err
	} else if ok {
		c.keys = append(c.keys, []string{value})
	}
	value, ok, err := single(h, "Authorization")
	if err != nil {
		return credentials{}, err
	}
	if !ok {
		return c, nil
	}
	scheme, param, _ := strings.Cut(value, " ")
	param = strings.Trim(param, " ")
	switch strings.ToLower(scheme) { // RFC 9110 §11.1: case does not matter
	case "basic":
		pair, err := basic(param)
		if err != nil {
			return credentials{}, err
		}
		c.keys = append(c.keys, pair)
	case "bearer":
		if !isToken68(param) {
			return credentials{}, unauthorized("the bearer token is malformed", nil)
		}
		c.bearer = param
	default:
		return credentials{}, unauthorized("the Authorization header must be of the scheme Bearer or Basic", nil)
	}
	return c, nil
}

// single returns the only value of a header. Two values would let two readers
// of one request disagree about who sent it.
func single(h http.Header, name string) (value string, ok bool, err error) {
	values := h.Values(name)
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, unauthorized("the "+name+" header is there more than once", nil)
	case len(values[0]) > maxHeader:
		return "", false, unauthorized(fmt.Sprintf("the %s header is longer than %d bytes", name, maxHeader), nil)
	case strings.TrimSpace(values[0]) == "":
		return "", false, unauthorized("the "+name+" header is empty", nil)
	}
	return values[0], true, nil
}

// basic decodes user and password (RFC 7617 §2), of which one must be a key;
// an empty half is left out.
func basic(param string) ([]string, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(param)
	if err != nil {
		// Not err itself: it can quote what it read.
		return nil, unauthorized("the Basic credentials are malformed", nil)
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok {
		return nil, unauthorized("the Basic credentials are malformed", nil)
	}
	var pair []string
	for _, half := range []string{user, password} {
		if half != "" {
			pair = append(pair, half)
		}
	}
	return pair, nil
}

// isToken68 reports whether s has the form of RFC 9110 §11.2's token68.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	return s != "" && strings.Trim(s, alphanumeric+"-._~+/") == ""
}
