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
)

// Errors of Members and Elements.
var (
	ErrNotObject = errors.New("must be a JSON object")
	ErrNotArray  = errors.New("must be a JSON array")
	ErrTooMany   = errors.New("has too many elements")
	errCut       = errors.New("is not valid JSON")
)

// Members returns those members of an object that are named, as parts of b. Names are
// exact, and of members with the same name the last one counts.
func Members(b []byte, names ...string) (map[string]json.RawMessage, error) {
	b = bytes.Trim(b, space)
	if len(b) == 0 || b[0] != '{' {
		return nil, ErrNotObject
	}
	m := make(map[string]json.RawMessage, len(names))
	err := each(b, '}', func(rest []byte) (int, error) {
		if rest[0] != '"' {
			return 0, errCut
		}
		n := length(rest)
		if n < 0 {
			return 0, errCut
		}
		name, err := text(rest[:n])
		if err != nil {
			return 0, err
		}
		n += skip(rest[n:])
		if n == len(rest) || rest[n] != ':' {
			return 0, errCut
		}
		n++
		n += skip(rest[n:])
		v := length(rest[n:])
		if v <= 0 {
			return 0, errCut
		}
		if k := slices.IndexFunc(names, func(s string) bool { return s == string(name) }); k >= 0 {
			m[names[k]] = json.RawMessage(rest[n : n+v : n+v])
		}
		return n + v, nil
	})
	return m, err
}

// text is a name without its quotes.
func text(b []byte) ([]byte, error) {
	if bytes.IndexByte(b, '\\') < 0 {
		return b[1 : len(b)-1], nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil, errCut
	}
	return []byte(s), nil
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
