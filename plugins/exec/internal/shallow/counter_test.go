package shallow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		body, field string
		over        bool
	}{
		{`{"a":[1,2,3]}`, "", false},
		{`{"a":[1,2,3,4]}`, "a", true},
		{`{"a" : [ "x,]" , {"b":[1,2,3,4,5]} , [1,2,3,4,5] ], "c":1}`, "", false},
		{`{"c":[1,2,3,4,5],"a":[]}`, "", false},
		{`{"c":"a","d":[1,2,3,4,5]}`, "", false},
		{`{"c":{"a":[1,2,3,4,5]}}`, "", false},
		{`{"a":{"x":1,"y":2,"z":3,"w":4}}`, "", false},
		{`{"a":[],"c":[1,2,3,4,5],"a":[1,2,3,4]}`, "a", true},
		{`{"\"a":[1,2,3,4,5]}`, "", false},
		{`{"ab":[1,2,3,4,5]}`, "", false},
		{`[1,2,3,4,5]`, "", false},
		{`{"a":[1,2,3,` + strings.Repeat("x", 100), "a", true}, // the rest does not matter
		{`{"1":0,"2":0,"3":0,"4":0,"5":{"x":0,"y":0}}`, "", false},
		{`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0}`, "", true},
		{`{"c":[` + strings.Repeat("0,", 100) + `0]}`, "", true},
		{`{"c":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "", true},
	} {
		for _, piece := range []int{1, 3, len(c.body)} {
			n := Counter{Most: map[string]int{"a": 3}, Members: 5, Values: 50}
			var field string
			var err error
			for rest := c.body; rest != "" && err == nil; rest = rest[min(piece, len(rest)):] {
				field, err = n.Write([]byte(rest[:min(piece, len(rest))]))
			}
			if field != c.field || errors.Is(err, ErrTooMany) != c.over {
				t.Errorf("%.60s in pieces of %d: %q, %v", c.body, piece, field, err)
			}
		}
	}
}

// Of JSON it counts what there is, but for names with escapes.
func FuzzCounter(f *testing.F) {
	for _, s := range []string{`{"a":[1,[2,3],"]"],"b":{}}`, `{"a":[1,2,3]}`, `{"a":[],"a":[{},{},{}]}`, `{"a\\":[1,2,3,4]}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		field, err := (&Counter{Most: map[string]int{"a": 2}}).Write(b)
		if (field == "a") != (err != nil) {
			t.Errorf("%q: %q, %v", b, field, err)
		}
		if !json.Valid(b) || strings.Contains(string(b), `\`) {
			return
		}
		over := false
		_ = Each(b, func(name []byte, v json.RawMessage) error {
			if string(name) == `"a"` {
				_, err := Elements(v, 2)
				over = over || errors.Is(err, ErrTooMany)
			}
			return nil
		})
		if over != (err != nil) {
			t.Errorf("%q: %v, but there are too many: %v", b, err, over)
		}
	})
}
