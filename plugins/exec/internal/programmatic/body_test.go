package programmatic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func read(s string, token func(string) error) (*Body, error) {
	if token == nil {
		token = func(string) error { return nil }
	}
	var r io.Reader = strings.NewReader(s)
	if len(s) < 1<<20 {
		r = iotest.HalfReader(r)
	}
	return ReadBody(r, BodyOptions{Members: 1 << 10, Known: []string{"lang", "code", "tools"}, Results: 3, Token: token})
}

func TestReadBody(t *testing.T) {
	b, err := read("\ufeff"+` {"lang":"py","code":"a","code":"b","tools":[{"name":"x"}],"continuation_token":null} `, nil)
	if err != nil || b.Token != "" || string(b.Members["code"]) != `"b"` || string(b.Members["tools"]) != `[{"name":"x"}]` {
		t.Errorf("%+v, %v", b, err)
	}
	var told []string
	b, err = read(`{"continuation_token":"t","tool_results":[
		{"call_id":"1","result":{"a":[1, 2]},"is_error":false},{"call_id":"2","result":null,"is_error":true,"error_message":"no"},{"call_id":"3"}]}`,
		func(s string) error { told = append(told, s); return nil })
	if err != nil || b.Token != "t" || len(b.Results) != 3 || len(told) != 1 || told[0] != "t" {
		t.Fatalf("%+v, %v, told %v", b, err, told)
	}
	for i, want := range []Result{{CallID: "1", Value: []byte(`{"a":[1, 2]}`)}, {CallID: "2", IsError: true, Error: "no"}, {CallID: "3"}} {
		if fmt.Sprintf("%+v", b.Results[i]) != fmt.Sprintf("%+v", want) {
			t.Errorf("%d: %+v, want %+v", i, b.Results[i], want)
		}
	}
}

// What ends the reading of the very first bytes is told, and nothing is read behind it.
func TestErrorsOfTheFirstRead(t *testing.T) {
	refused := errors.New("refused")
	rest := strings.NewReader(`{"code":"x"}`)
	b, err := ReadBody(io.MultiReader(&once{refused}, rest), BodyOptions{Members: 1 << 10, Known: []string{"code"}})
	if !errors.Is(err, refused) || rest.Len() == 0 {
		t.Errorf("%+v, %v, %d bytes left", b, err, rest.Len())
	}
}

// once is a reader that fails once and then has nothing.
type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	err := o.err
	o.err = io.EOF
	return 0, err
}

// What nobody asked for is not kept.
func TestUnknownMembers(t *testing.T) {
	b, err := read(`{"a":1,"code":"x","b":[{}],"lang":"py","a":"`+strings.Repeat("y", 100)+`"}`, nil)
	if err != nil || len(b.Members) != 2 || string(b.Members["code"]) != `"x"` || string(b.Members["lang"]) != `"py"` {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestBodiesThatAreWrong(t *testing.T) {
	const results = `"tool_results":[{"call_id":"1"}]`
	long := strings.Repeat("x", 2<<10)
	for _, c := range []struct {
		body, rule   string
		syntax, size bool
	}{
		{``, "ends too early", true, false},
		{`{`, "ends too early", true, false},
		{`{"a":`, "ends too early", true, false},
		{`{"a" 1}`, "not valid JSON", true, false},
		{`[]`, "must be a JSON object", true, false},
		{`7`, "must be a JSON object", true, false},
		{`{} {}`, "something follows", true, false},
		{`{} x`, "something follows", true, false},
		{`{"a":"` + long + `"}`, "larger than 1024", false, true},
		{`{"a":"` + long[:600] + `","b":"` + long[:600] + `"}`, "larger than 1024", false, true},
		{`{"` + strings.Repeat("k", 100<<10) + `":1}`, "name of a member", false, true},
		{`{"a":` + strings.Repeat(" ", 100<<10) + `1}`, "larger than 1024", false, true},
		{"{\"a\":\"\xff\"}", "UTF-8", false, false},
		{`{"continuation_token":"t"}`, "tool_results is required", false, false},
		{`{` + results + `}`, "continuation_token is required", false, false},
		{`{"continuation_token":"","tool_results":[]}`, "must be a string", false, false},
		{`{"continuation_token":"t","continuation_token":"t",` + results + `}`, "comes twice", false, false},
		{`{"continuation_token":"t",` + results + `,` + results + `}`, "comes twice", false, false},
		{`{"continuation_token":"t","tool_results":null}`, "must be an array", false, false},
		{`{"continuation_token":"t","tool_results":{}}`, "must be an array", false, false},
		{`{"continuation_token":"t","tool_results":[7]}`, "[0] must be an object", false, false},
		{`{"continuation_token":"t","tool_results":[{}]}`, "[0].call_id", false, false},
		{`{"continuation_token":"t","tool_results":[{"call_id":1}]}`, "[0].call_id", false, false},
		{`{"continuation_token":"t","tool_results":[{"call_id":"1"},{"call_id":"1","is_error":1}]}`, "[1].is_error", false, false},
		{`{"continuation_token":"t","tool_results":[{"call_id":"1","is_error":true,"error_message":{}}]}`, "[0].error_message", false, false},
		{`{"continuation_token":"t","tool_results":[{"call_id":"1"},{"call_id":"2"},{"call_id":"3"},{"call_id":"4"}]}`, "more than 3", false, false},
		{"{\"continuation_token\":\"t\",\"tool_results\":[{\"call_id\":\"\xff\"}]}", "UTF-8", false, false},
		{`{"continuation_token":"t","tool_results":[{"call_id":"1","result":"` + strings.Repeat("x", MaxResult) + `"}]}`, "[0] is larger", false, true},
		{`{"continuation_token":"t","tool_results":[{"call_id":"1","result":"` + strings.Repeat("x", 2*MaxResult) + `"}]}`, "[0] is larger", false, true},
		{`{"continuation_token":"t","tool_results":[` + strings.Repeat(" ", MaxResult+maxEnvelope+1) + `]}`, "[0] is larger", false, true},
	} {
		_, err := read(c.body, nil)
		be, ok := errors.AsType[*BodyError](err)
		if !ok || be.Syntax != c.syntax || be.TooLarge != c.size || be.Encoding != (c.rule == "UTF-8") || !strings.Contains(be.Rule, c.rule) {
			t.Errorf("%.60q: %+v, want %q", c.body, err, c.rule)
		}
	}
	refused := errors.New("refused")
	if _, err := read(`{"continuation_token":"t","tool_results":[`, func(string) error { return refused }); err != refused {
		t.Errorf("what Token says: %v", err)
	}
	broken := errors.New("broken")
	if _, err := ReadBody(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(broken)), BodyOptions{Members: 100}); err != broken {
		t.Errorf("what the reader says: %v", err)
	}
}

func TestResultsInAll(t *testing.T) {
	one := `{"call_id":"1","result":"` + strings.Repeat("x", MaxResult-10) + `"},`
	body := `{"continuation_token":"t","tool_results":[` + strings.Repeat(one, 9)
	_, err := ReadBody(strings.NewReader(body), BodyOptions{Members: 1 << 10, Results: 100, Token: func(string) error { return nil }})
	if be, ok := errors.AsType[*BodyError](err); !ok || !be.TooLarge || !strings.Contains(be.Rule, "tool_results is larger") {
		t.Errorf("%v", err)
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	message := strings.Repeat("é", maxError)
	b, err := read(`{"continuation_token":"t","tool_results":[{"call_id":"1","is_error":true,"error_message":"x`+message+`"}]}`, nil)
	if err != nil || len(b.Results[0].Error) > maxError || len(b.Results[0].Error) < maxError-2 || strings.ContainsRune(b.Results[0].Error, '\ufffd') {
		t.Errorf("%v", err)
	}
}

func FuzzReadBody(f *testing.F) {
	for _, s := range []string{
		`{"lang":"py","code":"print(1)","tools":[{"name":"a","parameters":{}}]}`,
		`{"continuation_token":"t","tool_results":[{"call_id":"1","result":{"a":1},"is_error":false}]}`,
		`{"tool_results":[],"continuation_token":7}`, `[`, `{} {}`, "\ufeff{}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := 0
		b, err := read(s, func(string) error { tokens++; return nil })
		if tokens > 1 {
			t.Errorf("told %d tokens", tokens)
		}
		if err != nil {
			if _, ok := errors.AsType[*BodyError](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if !json.Valid([]byte(strings.TrimPrefix(s, "\ufeff"))) {
			t.Errorf("taken for JSON: %q", s)
		}
		for _, x := range b.Results {
			if x.CallID == "" || len(x.Value) > 0 && !json.Valid(x.Value) {
				t.Errorf("%+v", x)
			}
			x.digest()
			if r := x.reply(); r.Error == "" && !json.Valid(r.Result) {
				t.Errorf("%+v", r)
			}
		}
		if (b.Token != "") != (tokens == 1) {
			t.Errorf("token %q, told %d", b.Token, tokens)
		}
	})
}
