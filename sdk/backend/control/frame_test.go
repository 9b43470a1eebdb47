package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseCall(t *testing.T) {
	c, err := parseCall([]byte(` { "input" : [1, {"a":"ü"}] , "name":"n\u0041" , "id":"x" } `))
	if err != nil || c.ID != "x" || c.Name != "nA" || string(c.Input) != `[1, {"a":"ü"}]` {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := parseCall([]byte(`{"id":"1","name":"n","input":null}`)); err != nil {
		t.Errorf("null is a value: %v", err)
	}
	long := func(n int) string { return strings.Repeat("i", n) }
	for _, bad := range []string{
		"", "null", "[]", "1", `{"id":"1","name":"n"}`, `{"id":"1","input":1}`, `{"name":"n","input":1}`,
		`{"id":1,"name":"n","input":1}`, `{"id":null,"name":"n","input":1}`, `{"id":"1","name":2,"input":1}`,
		`{"id":"","name":"n","input":1}`, `{"id":"1","name":"","input":1}`, `{"ID":"1","name":"n","input":1}`,
		`{"id":"1","name":"n","input":1,"x":1}`, `{"id":"1","name":"n","input":1}{}`, "{\"id\":\"1\",\"name\":\"\xff\",\"input\":1}",
		`{"id":"` + long(MaxID+1) + `","name":"n","input":1}`, `{"id":"1","name":"` + long(MaxName+1) + `","input":1}`,
		`{"id":"1","name":"n","input":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		`{"id":"1","name":"n","input":"` + long(MaxValue) + `"}`,
	} {
		if _, err := parseCall([]byte(bad)); !errors.Is(err, errFrame) {
			t.Errorf("%.100s: %v", bad, err)
		}
	}
}

func TestReply(t *testing.T) {
	for _, c := range []struct {
		reply Reply
		frame string
	}{
		{Reply{Result: []byte("{\n \"a\": 1\n}")}, `{"id":"\"","result":{"a":1}}`},
		{Reply{Result: []byte(`{"a":1}`), Error: "no"}, `{"id":"\"","error":"no"}`},
		{Reply{}, `{"id":"\"","error":"the result of the call is no JSON"}`},
		{Reply{Result: []byte("\"\xff\"")}, `{"id":"\"","error":"the result of the call is no JSON"}`},
	} {
		if got := string(appendReply(nil, `"`, c.reply)); got != c.frame+"\n" {
			t.Errorf("%q, want %q", got, c.frame)
		}
	}
	long := appendReply(nil, "1", Reply{Error: strings.Repeat("ü", maxError)})
	if id, r, err := parseReply(long); err != nil || id != "1" || len(r.Error) > maxError || strings.ContainsRune(r.Error, '\ufffd') {
		t.Errorf("a long error: %q, %d bytes, %v", id, len(r.Error), err)
	}
	for _, bad := range []string{"", "{}", `{"id":"1"}`, `{"id":"1","result":1,"error":"x"}`, `{"result":1}`} {
		if _, _, err := parseReply([]byte(bad)); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzParseCall: what is accepted comes back the same when it is written and read
// again, and nothing that a line cannot hold is accepted.
func FuzzParseCall(f *testing.F) {
	f.Add([]byte(`{"id":"1","name":"n","input":{"a":[1,2.5e3,null,"ü\n"]}}`))
	f.Add([]byte(`{"id":"1","name":"n","input":null,"id":"2"}`))
	f.Add([]byte("{\"id\":\"\xed\xa0\x80\",\"name\":\"n\",\"input\":1}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := parseCall(line)
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := appendCall(nil, c)
		if err != nil {
			t.Fatalf("%q was accepted and cannot be written: %v", line, err)
		}
		if bytes.IndexByte(again, '\n') != len(again)-1 {
			t.Fatalf("%q became several lines: %q", line, again)
		}
		d, err := parseCall(again[:len(again)-1])
		var want bytes.Buffer
		if e := json.Compact(&want, c.Input); err != nil || e != nil || d.ID != c.ID || d.Name != c.Name || !bytes.Equal(d.Input, want.Bytes()) {
			t.Fatalf("%q became %q: %v, %v", line, again, err, e)
		}
	})
}

// FuzzParseReply: a program that is lied to fails in order.
func FuzzParseReply(f *testing.F) {
	f.Add([]byte(`{"id":"1","result":{}}`))
	f.Add([]byte(`{"id":"1","error":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		id, r, err := parseReply(line)
		if err == nil && (id == "" || (r.Error == "") != (r.Result != nil)) {
			t.Fatalf("%q: %q, %+v", line, id, r)
		}
	})
}
