package admission

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxKeySet bounds a key set in bytes, maxKeys in keys. Large issuers
	// publish a dozen keys in some 20 KiB.
	maxKeySet = 512 << 10
	maxKeys   = 100

	minRSABits, maxRSABits = 2048, 8192
)

// parseKeySet returns the keys of a JWK set (RFC 7517 §5) that can verify
// tokens. Others, kinds it does not know included, are passed over, as §5 asks;
// a set without any usable key is an error, since it would refuse everybody.
func parseKeySet(body []byte) ([]jose.JSONWebKey, error) {
	if len(body) > maxKeySet {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the key set is no JSON object with a list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || (key.Use != "" && key.Use != "sig") {
			continue
		}
		// A set that shows private keys is the issuer's trouble; we keep none.
		key = key.Public()
		if algorithm := algorithmOf(key.Key); algorithm == "" || (key.Algorithm != "" && key.Algorithm != string(algorithm)) {
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// algorithmOf returns the one accepted algorithm that key is for, or "".
func algorithmOf(key any) jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
			return jose.RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return jose.ES256
		}
	case ed25519.PublicKey:
		return jose.EdDSA
	}
	return ""
}

// match returns the keys for an algorithm with this id. A token without an id
// (RFC 7515 §4.1.4 makes it optional) is matched only where there is no choice.
func match(keys []jose.JSONWebKey, kid string, alg jose.SignatureAlgorithm) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, key := range keys {
		if algorithmOf(key.Key) == alg && (kid == "" || key.KeyID == kid) {
			found = append(found, key)
		}
	}
	if kid == "" && len(found) > 1 {
		return nil
	}
	return found
}
