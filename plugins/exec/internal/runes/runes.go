// Package runes cuts text in UTF-8 between characters.
package runes

import "unicode/utf8"

// Partial returns how many bytes at the end of b begin a character that is not complete:
// 0 to 3. Bytes that can be no character are complete as they are.
func Partial[T ~string | ~[]byte](b T) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := []byte(b[len(b)-n:]); utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Whole returns b without what Partial counts.
func Whole[T ~string | ~[]byte](b T) T { return b[:len(b)-Partial(b)] }

// Cut returns the beginning of b, of at most n bytes.
func Cut[T ~string | ~[]byte](b T, n int) T {
	if len(b) <= n {
		return b
	}
	return Whole(b[:n])
}
