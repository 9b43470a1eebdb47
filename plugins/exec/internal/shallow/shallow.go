// Package shallow takes JSON apart one level deep, without copying it and without keeping
// what nobody asked for. encoding/json makes a value of a hundred bytes out of every member
// and element of two before anybody can count them, so that a body of 16 MiB becomes half
// a gigabyte.
//
// It is for text that is known to be JSON: it finds where values end and does not check
// them. Of other text it reports an error or pieces of it, and never looks beyond.
package shallow

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// Errors of Members and Elements.
var (
	ErrNotObject = errors.New("must be a JSON object")
	ErrNotArray  = errors.New("must be a JSON array")
	ErrTooMany   = errors.New("has too many elements")
	errCut       = errors.New("is not valid JSON")
)

// Members returns those members of an object that are named, as parts of b. Names are
// exact, letters and underscores, and of members with the same name the last one counts.
func Members(b []byte, names ...string) (map[string]json.RawMessage, error) {
	m := make(map[string]json.RawMessage, len(names))
	err := Each(b, func(name []byte, value json.RawMessage) error {
		if k := slices.IndexFunc(names, func(s string) bool { return named(name, s) }); k >= 0 {
			m[names[k]] = value
		}
		return nil
	})
	return m, err
}

// Each calls f with the members of an object in their order, as parts of b, until it returns an
// error. A name comes as it is written, with its quotes.
func Each(b []byte, f func(name []byte, value json.RawMessage) error) error {
	b = bytes.Trim(b, space)
	if len(b) == 0 || b[0] != '{' {
		return ErrNotObject
	}
	return each(b, '}', func(rest []byte) (int, error) {
		if rest[0] != '"' {
			return 0, errCut
		}
		end := length(rest)
		if end < 0 {
			return 0, errCut
		}
		n := end + skip(rest[end:])
		if n == len(rest) || rest[n] != ':' {
			return 0, errCut
		}
		n++
		n += skip(rest[n:])
		v := length(rest[n:])
		if v <= 0 {
			return 0, errCut
		}
		return n + v, f(rest[:end], json.RawMessage(rest[n:n+v:n+v]))
	})
}

// named reports whether a name with its quotes is s. Only one that may be, with escapes, is
// taken apart: there may be a million of them.
func named(name []byte, s string) bool {
	inner := name[1 : len(name)-1]
	const escape = len(`\u0000`)
	if len(inner) <= len(s) || len(inner) > escape*len(s) || bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == s
	}
	i := bytes.IndexByte(inner, '\\')
	if i > len(s) || string(inner[:i]) != s[:i] {
		return false
	}
	for k := i; k < len(s); k++ {
		switch {
		case len(inner) > i && inner[i] == s[k] && s[k] != '\\':
			i++
		case len(inner) >= i+escape && inner[i] == '\\' && inner[i+1] == 'u':
			n, err := strconv.ParseUint(string(inner[i+2:i+escape]), 16, 16)
			if err != nil || n != uint64(s[k]) || n >= 0x80 {
				return false
			}
			i += escape
		default: // names that are asked for have no other escapes
			return false
		}
	}
	return i == len(inner)
}

// Elements returns the elements of an array, as parts of b, or ErrTooMany as soon as there
// are more than most.
func Elements(b []byte, most int) ([]json.RawMessage, error) {
	b = bytes.Trim(b, space)
	if len(b) == 0 || b[0] != '[' {
		return nil, ErrNotArray
	}
	out := []json.RawMessage{}
	err := each(b, ']', func(rest []byte) (int, error) {
		if len(out) == most {
			return 0, ErrTooMany
		}
		n := length(rest)
		if n <= 0 {
			return 0, errCut
		}
		out = append(out, json.RawMessage(rest[:n:n]))
		return n, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const space = " \t\r\n"

// each calls item with what begins at every item between the brackets of b, and goes on
// behind as many bytes as it returns.
func each(b []byte, end byte, item func(rest []byte) (int, error)) error {
	i := 1 + skip(b[1:])
	if i == len(b)-1 && b[i] == end {
		return nil
	}
	for i < len(b) {
		n, err := item(b[i:])
		if err != nil {
			return err
		}
		i += n
		i += skip(b[i:])
		switch {
		case i == len(b)-1 && b[i] == end:
			return nil
		case i == len(b) || b[i] != ',':
			return errCut
		}
		i++
		i += skip(b[i:])
	}
	return errCut
}

func skip(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return i
		}
	}
	return len(b)
}

// length is how many bytes the value has that b begins with, -1 where it does not end.
func length(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := quoted(b[i:])
			if n < 0 {
				return -1
			}
			if i += n - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of what b is in
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return -1
	}
	return len(b)
}

// quoted is how many bytes a string has, with its quotes.
func quoted(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
