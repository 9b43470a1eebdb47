// Package identity makes and checks the ids that Caisson hands out: sessions
// and files. Both are derived from or sealed with the deployment secret, so
// that an id which was never issued is recognised without asking anybody, and
// no table of ids exists that could disagree with the truth.
//
// It does not decide who owns a session: that is the sandbox's metadata.
package identity

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Length is the length of every id issued: clients validate download links by
// ^[A-Za-z0-9_-]{21}$ (docs/wire.md). None begins with a hyphen: on a command line
// that is a flag.
const Length = 21

const (
	randomLen = 14 // 84 bits
	routeLen  = 3  // 18 bits: 9 of config, 9 of node
	macLen    = 4  // 24 bits
	sealedLen = randomLen + routeLen

	// MinSecret is the least length of a deployment secret in bytes.
	MinSecret = 16

	routeHalf = 9
	routeMask = 1<<routeHalf - 1
)

// Route says whom to ask about a session: which named config, and which node
// for backends that keep sandboxes on one machine. Both are hashes: several
// configs may share one, and whoever resolves a route asks each that matches.
type Route struct {
	Config uint16
	Node   uint16
}

// Keys are the deployment's derived keys. They are immutable and safe for
// concurrent use.
type Keys struct {
	rings []ring
	rand  io.Reader
}

type ring struct{ session, route, file, peer []byte }

// NewKeys derives keys from one or more secrets. The first makes new ids; all
// of them verify, so that a secret is rotated by putting the new one in front.
// Every replica of a deployment needs the same list.
func NewKeys(secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("identity: no deployment secret")
	}
	k := &Keys{rand: rand.Reader}
	for i, s := range secrets {
		if len(s) < MinSecret {
			return nil, fmt.Errorf("identity: secret %d is %d bytes long, need at least %d", i+1, len(s), MinSecret)
		}
		var r ring
		for _, d := range []struct {
			use string
			key *[]byte
		}{{"session id v1", &r.session}, {"route v1", &r.route}, {"file id v1", &r.file}, {"peer v1", &r.peer}} {
			key, err := hkdf.Key(sha256.New, s, nil, "caisson "+d.use, sha256.Size)
			if err != nil {
				return nil, fmt.Errorf("identity: derive %s key: %w", d.use, err)
			}
			*d.key = key
		}
		k.rings = append(k.rings, r)
	}
	return k, nil
}

// Route returns the route of a named config on a node. Node is empty for
// backends whose sandboxes any replica can reach.
func (k *Keys) Route(config, node string) Route { return k.rings[0].routeOf(config, node) }

// Routes returns the route under every key, newest first: an id made before a
// rotation carries an older one.
func (k *Keys) Routes(config, node string) []Route {
	out := make([]Route, len(k.rings))
	for i, r := range k.rings {
		out[i] = r.routeOf(config, node)
	}
	return out
}

func (r ring) routeOf(config, node string) Route {
	route := Route{Config: hash9(r.route, "config", config)}
	if node != "" {
		route.Node = hash9(r.route, "node", node)
	}
	return route
}

// NewSession returns a fresh session id carrying route.
func (k *Keys) NewSession(route Route) (string, error) {
	var raw [11]byte // 88 bits; 84 are used
	id := make([]byte, 0, Length)
	for len(id) == 0 || id[0] == '-' {
		if _, err := io.ReadFull(k.rand, raw[:]); err != nil {
			return "", fmt.Errorf("identity: read randomness: %w", err)
		}
		id = append(id[:0], encode(raw[:])[:randomLen]...)
	}
	id = append(id, encode18(uint32(route.Config&routeMask)<<routeHalf|uint32(route.Node&routeMask))...)
	return string(append(id, k.rings[0].mac(id)...)), nil
}

// Session verifies a session id and returns its route. ok is false for every id
// that this deployment did not issue: such a session is absent, and no provider
// needs to be asked.
func (k *Keys) Session(id string) (route Route, ok bool) {
	if len(id) != Length {
		return Route{}, false
	}
	for _, r := range k.rings {
		if hmac.Equal([]byte(id[sealedLen:]), r.mac([]byte(id[:sealedLen]))) {
			v, ok := decode18(id[randomLen:sealedLen])
			return Route{Config: uint16(v >> routeHalf), Node: uint16(v & routeMask)}, ok
		}
	}
	return Route{}, false
}

// FileID returns the id of one version of one file: it changes when the content
// does, and two sessions never share one. sha256 is lower-case hex.
func (k *Keys) FileID(session, path, sha256 string) string {
	return k.rings[0].fileID(session, path, sha256)
}

// FileIDs returns the id under every key, newest first: an id handed out before
// a rotation was made with an older one. A list of files is indexed with it once
// where IsFile would be asked for each.
func (k *Keys) FileIDs(session, path, sha256 string) []string {
	out := make([]string, len(k.rings))
	for i, r := range k.rings {
		out[i] = r.fileID(session, path, sha256)
	}
	return out
}

// IsFile reports whether id names this version of this file under any key.
func (k *Keys) IsFile(id, session, path, sha256 string) bool {
	for _, r := range k.rings {
		if hmac.Equal([]byte(id), []byte(r.fileID(session, path, sha256))) {
			return true
		}
	}
	return false
}

// PeerTag proves to another replica of the deployment that parts come from one.
func (k *Keys) PeerTag(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(sum(k.rings[0].peer, parts...))
}

// IsPeerTag reports whether tag is that of parts under any key.
func (k *Keys) IsPeerTag(tag string, parts ...string) bool {
	for _, r := range k.rings {
		if hmac.Equal([]byte(tag), []byte(base64.RawURLEncoding.EncodeToString(sum(r.peer, parts...)))) {
			return true
		}
	}
	return false
}

func (r ring) fileID(session, path, digest string) string {
	id := encode(sum(r.file, session, path, digest)[:16])[:Length]
	if id[0] == '-' {
		id[0] = '_'
	}
	return string(id)
}

func (r ring) mac(sealed []byte) []byte {
	s := sum(r.session, string(sealed))
	return encode(s[:3])
}

// Syntax reports whether s may be a session or file id of any client
// generation: ^[A-Za-z0-9_-]{1,64}$ (docs/architecture.md).
func Syntax(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func hash9(key []byte, parts ...string) uint16 {
	return binary.BigEndian.Uint16(sum(key, parts...)) & routeMask
}

// sum is HMAC-SHA256 over length-prefixed parts, so that no two lists collide.
func sum(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		io.WriteString(h, p)
	}
	return h.Sum(nil)
}

func encode(b []byte) []byte {
	return []byte(base64.RawURLEncoding.EncodeToString(b))
}

// encode18 writes 18 bits as three characters.
func encode18(v uint32) []byte {
	b := []byte{byte(v >> 10), byte(v >> 2), byte(v << 6)}
	return encode(b)[:routeLen]
}

func decode18(s string) (uint32, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s + "A")
	if err != nil {
		return 0, false
	}
	return uint32(b[0])<<10 | uint32(b[1])<<2 | uint32(b[2])>>6, true
}
