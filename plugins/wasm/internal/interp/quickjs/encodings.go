package quickjs

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// The conversions here work from the guest's memory into the guest's memory, so
// that what they cost counts against the guest's limit.

// opUTF8Encode(text) returns bytes.
func opUTF8Encode(v *vm, a args) uint64 {
	s, release := a.span(0)
	defer release()
	return v.call("qjs_new_uint8_array", s.ptr, s.n)
}

// opUTF8Length(text) returns the number of bytes that UTF-8 needs.
func opUTF8Length(v *vm, a args) uint64 {
	s, release := a.span(0)
	defer release()
	return v.newNumber(float64(s.n))
}

// opUTF8Decode(bytes, fatal) returns a string; what is no UTF-8 becomes U+FFFD,
// or throws.
func opUTF8Decode(v *vm, a args) uint64 {
	s, release := a.span(0)
	defer release()
	b := v.bytes(s)
	if utf8.Valid(b) {
		return v.call("qjs_new_string", s.ptr, s.n)
	}
	if a.bool(1) {
		return v.throw("EILSEQ")
	}
	n := 0
	replaceInvalid(b, func(part []byte) { n += len(part) })
	return v.produce(int64(n), func(dst []byte) (int, error) {
		at := 0
		replaceInvalid(v.bytes(s), func(part []byte) { at += copy(dst[at:], part) })
		return at, nil
	}, v.stringOf)
}

func (v *vm) stringOf(s span) uint64 { return v.call("qjs_new_string", s.ptr, s.n) }

// replaceInvalid emits b with one U+FFFD for each maximal part of a sequence,
// as the encoding standard of the web says, which is not one per byte.
func replaceInvalid(b []byte, emit func([]byte)) {
	replacement := []byte("\ufffd")
	start := 0
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r != utf8.RuneError || n != 1 {
			i += n
			continue
		}
		emit(b[start:i])
		emit(replacement)
		i += maximalPart(b[i:])
		start = i
	}
	emit(b[start:])
}

// maximalPart returns how many bytes at the start of b are the beginning of a
// valid sequence, at least 1.
func maximalPart(b []byte) int {
	lo, hi, need := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
		if c == 0xe0 {
			lo = 0xa0
		} else if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			lo = 0x90
		} else if c == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xbf
	}
	return n
}

// opEncode(encoding, bytes) returns text: base64, base64url, hex or latin1.
func opEncode(v *vm, a args) uint64 {
	s, release := a.span(1)
	defer release()
	var size int
	var encode func(dst, src []byte) int
	switch a.text(0) {
	case "base64":
		size, encode = base64.StdEncoding.EncodedLen(int(s.n)), encodeBase64(base64.StdEncoding)
	case "base64url":
		size, encode = base64.RawURLEncoding.EncodedLen(int(s.n)), encodeBase64(base64.RawURLEncoding)
	case "hex":
		size, encode = hex.EncodedLen(int(s.n)), hex.Encode
	case "latin1":
		for _, c := range v.bytes(s) {
			size += utf8.RuneLen(rune(c))
		}
		encode = func(dst, src []byte) int {
			dst = dst[:0]
			for _, c := range src {
				dst = utf8.AppendRune(dst, rune(c))
			}
			return len(dst)
		}
	default:
		return v.throw("EINVAL")
	}
	return v.produce(int64(size), func(dst []byte) (int, error) {
		for part := range v.parts(v.bytes(s)) {
			dst = dst[encode(dst, part):]
		}
		return size, nil
	}, v.stringOf)
}

func encodeBase64(enc *base64.Encoding) func(dst, src []byte) int {
	return func(dst, src []byte) int {
		enc.Encode(dst, src)
		return enc.EncodedLen(len(src))
	}
}

// opDecode(encoding, text) returns bytes. Like node it stops at what is no
// base64 or hex instead of failing.
func opDecode(v *vm, a args) uint64 {
	s, release := a.span(1)
	defer release()
	var decode func(dst, src []byte) int
	switch a.text(0) {
	case "base64", "base64url":
		decode = decodeBase64
	case "hex":
		decode = func(dst, src []byte) int {
			n, _ := hex.Decode(dst, src[:len(src)/2*2])
			return n
		}
	case "latin1":
		decode = decodeLatin1
	default:
		return v.throw("EINVAL")
	}
	return v.fill(int64(s.n), func(dst []byte) (int, error) { return decode(dst, v.bytes(s)), nil })
}

// decodeBase64 takes both alphabets, skips what belongs to neither and stops at
// the padding.
func decodeBase64(dst, src []byte) int {
	var bits, count uint
	n := 0
	for _, c := range src {
		var d byte
		switch {
		case c >= 'A' && c <= 'Z':
			d = c - 'A'
		case c >= 'a' && c <= 'z':
			d = c - 'a' + 26
		case c >= '0' && c <= '9':
			d = c - '0' + 52
		case c == '+' || c == '-':
			d = 62
		case c == '/' || c == '_':
			d = 63
		case c == '=':
			return n
		default:
			continue
		}
		bits = bits<<6 | uint(d)
		if count += 6; count >= 8 {
			count -= 8
			dst[n] = byte(bits >> count)
			n++
		}
	}
	return n
}

// decodeLatin1 keeps the low byte of each UTF-16 unit.
func decodeLatin1(dst, src []byte) int {
	n := 0
	for len(src) > 0 {
		r, size := utf8.DecodeRune(src)
		src = src[size:]
		if r > 0xffff { // a surrogate pair is two units
			dst[n] = byte((r - 0x10000) >> 10)
			n++
		}
		dst[n] = byte(r)
		n++
	}
	return n
}

// opIndexOf(bytes, needle, from, last) returns where the needle begins at or
// after from, or at or before it, or -1.
func opIndexOf(v *vm, a args) uint64 {
	hay, release := a.span(0)
	defer release()
	needle, release2 := a.span(1)
	defer release2()
	h, n := v.bytes(hay), v.bytes(needle)
	from := int(min(max(a.integer(2), 0), int64(len(h))))
	if a.bool(3) {
		return v.newNumber(float64(v.lastIndex(h[:min(from+len(n), len(h))], n)))
	}
	at := v.index(h[from:], n)
	if at >= 0 {
		at += from
	}
	return v.newNumber(float64(at))
}

// window is how many places are searched for a needle of n bytes at once.
func window(n int) int { return max(partBytes, 4*n) }

func (v *vm) index(h, n []byte) int {
	for off := 0; len(h)-off >= len(n); off += window(len(n)) {
		if i := bytes.Index(h[off:min(off+window(len(n))+len(n)-1, len(h))], n); i >= 0 {
			return off + i
		}
		guest.Yield(v.ctx)
	}
	return -1
}

func (v *vm) lastIndex(h, n []byte) int {
	for end := len(h); end >= len(n); end -= window(len(n)) {
		off := max(end-window(len(n))-len(n)+1, 0)
		if i := bytes.LastIndex(h[off:end], n); i >= 0 {
			return off + i
		}
		guest.Yield(v.ctx)
	}
	return -1
}
