package exec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/identity"
)

func TestDecode(t *testing.T) {
	one := int64(1)
	for body, want := range map[string]CodeRun{
		`{"lang":"py","code":"x"}`:                   {},
		"\ufeff  {\"lang\":\"py\",\"code\":\"x\"}\n": {},
		`{"lang":"py","code":"x","files":null,"args":null,"session_id":null,"timeout":null}`: {},
		`{"lang":"py","code":"x","files":[],"args":[]}`:                                      {Args: []string{}},
		`{"lang":"py","code":"x","CODE":"y","Lang":"z","nested":{"code":"evil"}}`:            {},
		`{"code":"evil","lang":"py","code":"x"}`:                                             {},
		`{"lang":"py","code":"x","args":["a b",1,true,null,1.50,{"a": [1]},[ 2 ]]}`:          {Args: []string{"a b", "1", "true", "", "1.50", `{"a":[1]}`, "[2]"}},
		`{"lang":"py","code":"x","args":"one two"}`:                                          {Args: []string{"one two"}},
		`{"lang":"py","code":"x","args":7}`:                                                  {Args: []string{"7"}},
		`{"lang":"py","code":"x","args":{"k": "v"}}`:                                         {Args: []string{`{"k":"v"}`}},
		`{"lang":"py","code":"x","user_id":5,"entity_id":{},"runtime_session_hint":[]}`:      {},
		`{"lang":"py","code":"x","user_id":"u","runtime_session_hint":"h"}`:                  {UserID: "u", RuntimeSessionHint: "h"},
		`{"lang":"py","code":"x","timeout":1500.7,"session_id":"S_-1"}`:                      {Timeout: 1500, SessionID: "S_-1"},
		`{"lang":"py","code":"x","timeout":{"a":1}}`:                                         {},
		`{"lang":"py","code":"x","files":[null,{"id":"F","name":"n","storage_session_id":"S","session_id":"T","kind":"skill","resource_id":"r","version":"1","entity_id":null,"inherited":true,"modified_from":{"id":"G","storage_session_id":"U"},"extra":1}]}`: {
			Files: []CodeFile{{
				ID: "F", Name: "n", StorageSessionID: "S", SessionID: "T", Kind: "skill", ResourceID: "r", Version: &one, Inherited: true,
				ModifiedFrom: &FileOrigin{ID: "G", StorageSessionID: "U"},
			}},
		},
	} {
		want.Lang, want.Code = "py", "x"
		got, err := decodeRun([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", body, *got, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                                    "not valid JSON",
		`{`:                                   "not valid JSON",
		`{"lang":"py","code":"x"} x`:          "not valid JSON",
		`[]`:                                  "the body must be a JSON object",
		`null`:                                "the body must be a JSON object",
		`"text"`:                              "the body must be a JSON object",
		"{\"lang\":\"py\",\"code\":\"\xff\"}": "not valid UTF-8",
		strings.Repeat("[", 20000):            "not valid JSON",
		`{"lang":"py","code":"x","deep":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`: "not valid JSON",
		`{"code":"x"}`:                                                             "lang is required",
		`{"lang":" ","code":"x"}`:                                                  "lang is required",
		`{"lang":"py"}`:                                                            "code is required",
		`{"lang":"py","code":""}`:                                                  "code is required",
		`{"lang":"py","code":null}`:                                                "code is required",
		`{"lang":1,"code":2}`:                                                      "lang must be a string",
		`{"lang":"py","code":["x"]}`:                                               "code must be a string",
		`{"lang":"py","code":"x","session_id":"a/b"}`:                              "session_id may hold",
		`{"lang":"py","code":"x","session_id":7}`:                                  "session_id must be a string",
		`{"lang":"py","code":"x","files":"a.csv"}`:                                 "files must be an array",
		`{"lang":"py","code":"x","files":["a.csv"]}`:                               "files[0] must be an object",
		`{"lang":"py","code":"x","files":[{"id":7}]}`:                              "files[0].id must be a string",
		`{"lang":"py","code":"x","args":["a\u0000b"]}`:                             "args[0] contains NUL",
		`{"lang":"py","code":"x","args":[` + strings.Repeat("1,", 1024) + `1]}`:    "args has more than 1024 elements",
		`{"lang":"py","code":"x","files":[` + strings.Repeat("{},", 1000) + `{}]}`: "files has more than 1000 elements",
		`{"lang":"` + strings.Repeat("x", 65) + `","code":"x"}`:                    "lang is longer than 64 bytes",
	} {
		_, err := decodeRun([]byte(body))
		if err == nil || err.Status != 400 || !strings.Contains(err.Message, want) {
			t.Errorf("%.80s: %v, want %q", body, err, want)
		}
	}
}

// Anything decodes or is refused with a sentence; what decodes is within bounds
// and decodes to itself again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"lang":"py","code":"x","args":[1,"a",{}],"files":[{"id":"a","name":"b","session_id":"c","version":3}],"timeout":1e9,"session_id":"S"}`,
		`{"lang":"py","code":"\ud800","files":null}`, `[]`, "\ufeff{}", `{"lang":"py","code":"x","timeout":"NaN"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, refused := decodeRun(b)
		if refused != nil {
			if refused.Status != 400 || refused.Message == "" || len(refused.Message) > 500 {
				t.Errorf("%q: %+v", b, refused)
			}
			return
		}
		if r.Code == "" || r.Timeout != 0 && (r.Timeout < minTimeout || r.Timeout > maxTimeout) || r.SessionID != "" && !identity.Syntax(r.SessionID) {
			t.Errorf("%q: %+v", b, r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		s, refused := decodeRun(again)
		if refused != nil {
			t.Fatalf("%q encodes to %s, which is refused: %v", b, again, refused)
		}
		if len(r.Args) == 0 {
			r.Args = nil
		}
		if len(r.Files) == 0 {
			r.Files = nil
		}
		if !reflect.DeepEqual(r, s) {
			t.Errorf("%q:\n once %+v\ntwice %+v", b, r, s)
		}
	})
}

// A ref that somebody made up names a path below the data directory or nothing.
func FuzzRef(f *testing.F) {
	f.Add([]byte(`{"id":"F","name":"/mnt/data/a.csv","session_id":"S"}`))
	f.Add([]byte(`{"id":"../x","name":"..","version":99999999999999999999,"modified_from":{"id":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var file CodeFile
		if json.Unmarshal(b, &file) != nil {
			return
		}
		if file.session("fallback") == "" {
			t.Errorf("%q has no session", b)
		}
		ix := &index{}
		if _, ok := ix.find(file.ID); ok {
			t.Errorf("%q was found in nothing", b)
		}
	})
}
