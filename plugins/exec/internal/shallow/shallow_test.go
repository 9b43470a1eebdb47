package shallow

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMembers(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`{}`:                                 {},
		" { }\n":                             {},
		`{"a":1}`:                            {"a": "1"},
		`{"a" : {"b":[1,"}"]} , "b":"x\"]"}`: {"a": `{"b":[1,"}"]}`, "b": `"x\"]"`},
		`{"a":1,"c":[[]],"a":null}`:          {"a": "null"},
		`{"\u0061":true,"A":2,"":3}`:         {"a": "true"},
	} {
		got, err := Members([]byte(text), "a", "b")
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		for k, v := range want {
			if string(got[k]) != v {
				t.Errorf("%s: %s is %q, want %q", text, k, got[k], v)
			}
		}
	}
	for _, text := range []string{``, `null`, `[]`, `"a"`, `1`} {
		if _, err := Members([]byte(text), "a"); !errors.Is(err, ErrNotObject) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestElements(t *testing.T) {
	got, err := Elements([]byte(` [1 , "a,]" ,{"b":[2,3]}, null ] `), 4)
	if err != nil || len(got) != 4 || string(got[1]) != `"a,]"` || string(got[2]) != `{"b":[2,3]}` {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Elements([]byte(`[]`), 0); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Elements([]byte(`[1,2,3]`), 2); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	if _, err := Elements([]byte(`{}`), 2); !errors.Is(err, ErrNotArray) {
		t.Error(err)
	}
}

// What nobody asked for is not kept, however much of it there is.
func TestNothingIsKept(t *testing.T) {
	members := []byte("{" + strings.Repeat(`"x":0,`, 1<<16) + `"a":1}`)
	elements := []byte("[" + strings.Repeat("0,", 1<<16) + "0]")
	for name, f := range map[string]func(){
		"members":  func() { _, _ = Members(members, "a") },
		"elements": func() { _, _ = Elements(elements, 100) },
	} {
		if n := testing.AllocsPerRun(10, f); n > 20 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Of JSON it finds what encoding/json finds; of anything else it finds parts of that at
// most.
func FuzzShallow(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"\\\""}]," ":0}`, `[{},[],"\"",-1.5e3 , null]`, `{"a"`, `[1,`, `{"\ud800":1,"a":2}`, `[}`, `["`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Members(b, "a", "b")
		for _, v := range m {
			if !bytes.Contains(b, v) {
				t.Errorf("%q is no part of %q", v, b)
			}
		}
		l, lerr := Elements(b, len(b))
		if !json.Valid(b) {
			return
		}
		var wantM map[string]json.RawMessage
		if isObject := json.Unmarshal(b, &wantM) == nil && wantM != nil; isObject != (err == nil) {
			t.Fatalf("%q: %v", b, err)
		} else if isObject {
			for k := range wantM {
				if k != "a" && k != "b" {
					delete(wantM, k)
				}
			}
			if len(m)+len(wantM) > 0 && !reflect.DeepEqual(m, wantM) {
				t.Errorf("%q: %q, want %q", b, m, wantM)
			}
		}
		var wantL []json.RawMessage
		if isArray := json.Unmarshal(b, &wantL) == nil && wantL != nil; isArray != (lerr == nil) {
			t.Fatalf("%q: %v", b, lerr)
		} else if isArray && !reflect.DeepEqual(l, wantL) {
			t.Errorf("%q: %q, want %q", b, l, wantL)
		}
	})
}
