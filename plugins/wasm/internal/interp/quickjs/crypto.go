package quickjs

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"
)

// opRandom(n) returns n random bytes of the host.
func opRandom(v *vm, a args) uint64 {
	return v.fill(a.integer(0), func(b []byte) (int, error) {
		n := 0
		for part := range v.parts(b) {
			m, err := rand.Read(part)
			if n += m; err != nil {
				return n, err
			}
		}
		return n, nil
	})
}

// newHash returns the constructor of a digest by node's name, nil for none.
func newHash(name string) func() hash.Hash {
	switch strings.ReplaceAll(strings.ToLower(name), "-", "") {
	case "md5":
		return md5.New
	case "sha1":
		return sha1.New
	case "sha224":
		return sha256.New224
	case "sha256":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	case "sha512224", "sha512/224":
		return sha512.New512_224
	case "sha512256", "sha512/256":
		return sha512.New512_256
	}
	return nil
}

// opHash(algorithm, data) returns the digest. Without data it only checks the
// algorithm.
func opHash(v *vm, a args) uint64 {
	h := newHash(a.text(0))
	if h == nil {
		return v.throw("EINVAL")
	}
	return v.digest(h(), a, 1)
}

// opHMAC(algorithm, key, data) returns the authentication code.
func opHMAC(v *vm, a args) uint64 {
	h := newHash(a.text(0))
	if h == nil {
		return v.throw("EINVAL")
	}
	key, release := a.span(1)
	// A long key is hashed; an HMAC of the hash is the same.
	k := v.bytes(key)
	if len(k) > h().BlockSize() {
		sum := h()
		for part := range v.parts(k) {
			sum.Write(part)
		}
		k = sum.Sum(nil)
	}
	m := hmac.New(h, k)
	release()
	return v.digest(m, a, 2)
}

func (v *vm) digest(h hash.Hash, a args, data int) uint64 {
	s, release := a.span(data)
	for part := range v.parts(v.bytes(s)) {
		h.Write(part)
	}
	release()
	sum := h.Sum(nil)
	return v.fill(int64(len(sum)), func(b []byte) (int, error) { return copy(b, sum), nil })
}
