package admission

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"
)

// EnvKey is the environment variable of a deployment's service key, and
// EnvKeyID what that key is called in records and on sessions.
const (
	EnvKey   = "CODE_EXEC_API_KEY"
	EnvKeyID = "env"
)

// Key is a service key. Sessions remember the ID of the key they were made
// under, so it should survive a rotation of the secret.
type Key struct {
	// ID names the key in records: 1 to 64 letters, digits, "_", "." or "-".
	ID string
	// Secret is what callers present: printable ASCII, at most 1024 bytes,
	// without space around it.
	Secret string
}

// Format prints the key without its secret, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "service key "+k.ID) }

// MarshalText keeps the secret out of anything that serialises a Key.
func (k Key) MarshalText() ([]byte, error) { return []byte("service key " + k.ID), nil }

// KeysFromEnv returns the service key that the environment sets: none, where
// EnvKey is unset or blank. env is os.LookupEnv in a server.
func KeysFromEnv(env func(string) (string, bool)) []Key {
	value, _ := env(EnvKey)
	// A secret mounted from a file often ends with a line break.
	if value = strings.TrimSpace(value); value == "" {
		return nil
	}
	return []Key{{ID: EnvKeyID, Secret: value}}
}

// keyring holds digests, so that comparing takes the same time for every
// length, and no secret stays in memory for longer than New runs.
type keyring []struct {
	id  string
	sum [sha256.Size]byte
}

func newKeyring(keys []Key) (keyring, error) {
	ring := make(keyring, len(keys))
	for i, k := range keys {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("service key %q: %w", k.ID, err)
		}
		ring[i].id, ring[i].sum = k.ID, sha256.Sum256([]byte(k.Secret))
		for _, other := range ring[:i] {
			if other.sum == ring[i].sum {
				return nil, fmt.Errorf("service key %q: has the secret of service key %q", k.ID, other.id)
			}
		}
	}
	return ring, nil
}

func (k Key) check() error {
	switch {
	case k.ID == "" || len(k.ID) > 64 || strings.Trim(k.ID, alphanumeric+"_.-") != "":
		return errors.New("id must be 1 to 64 letters, digits, _ . or -")
	case strings.TrimSpace(k.Secret) == "":
		return errors.New("secret is empty")
	case strings.TrimSpace(k.Secret) != k.Secret:
		return errors.New("secret has space around it, which no header can carry")
	case len(k.Secret) > 1024:
		return errors.New("secret is longer than 1024 bytes")
	case strings.ContainsFunc(k.Secret, func(r rune) bool { return r < 0x20 || r > 0x7e }):
		return errors.New("secret must be printable ASCII, since no header can carry other characters safely")
	}
	return nil
}

// find returns the ID of the key that is secret. It looks at every key every
// time, so neither the place of a key nor a near miss shows in the time taken.
func (ring keyring) find(secret string) (id string, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range ring {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], ring[i].sum[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return ring[found].id, true
}

// admit returns the ID of the one key that all headers carry; empty if there
// are no headers. Each header must carry a key, and all the same one: a
// request under two keys has no one key its session could belong to.
func (ring keyring) admit(headers [][]string) (id string, err error) {
	for _, candidates := range headers {
		matched := false
		for _, candidate := range candidates {
			switch found, ok := ring.find(candidate); {
			case !ok:
			case id != "" && id != found:
				return "", unauthorized("the request carries two different service keys", nil)
			default:
				id, matched = found, true
			}
		}
		if !matched {
			return "", unauthorized("the service key is not valid", nil)
		}
	}
	return id, nil
}
