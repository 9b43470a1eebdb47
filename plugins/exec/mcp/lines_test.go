package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestLines(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const pong = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	const asks = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`
	long := `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"` + strings.Repeat("x", 10_000) + `"}}`
	parse, invalid := `"code":-32700`, `"code":-32600`
	for name, c := range map[string]struct{ in, passed, answered string }{
		"messages":             {ping + "\n" + ping + "\r\n", ping + "\n" + ping + "\n", ""},
		"no line feed at last": {ping, ping + "\n", ""},
		"empty lines":          {"\n \r\n" + ping + "\n\n", ping + "\n", ""},
		"no JSON":              {"{bad json\n" + ping + "\n", ping + "\n", parse},
		"cut off at the end":   {ping + "\n" + `{"jsonrpc":"2.0",`, ping + "\n", parse},
		"two in a line":        {ping + " " + ping + "\n" + ping, ping + "\n", parse},
		"behind a message":     {ping + ",\n" + ping, ping + "\n", parse},
		"too long":             {long + "\n" + ping + "\n", ping + "\n", parse},
		"too long, no end":     {long, "", parse},
		"no object":            {"7\n" + ping, ping + "\n", invalid},
		"null":                 {"null\n" + ping, ping + "\n", invalid},
		"no JSON-RPC":          {`{"id":"a\"b","method":"ping"}` + "\n" + ping, ping + "\n", `"id":"a\"b","error":{` + invalid},
		"an id that is none":   {`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n" + ping, ping + "\n", `"id":null,"error":{` + invalid},
		"a method that is none": {
			`{"jsonrpc":"2.0","id":-7,"method":1}` + "\n" + ping, ping + "\n", `"id":-7,"error":{` + invalid,
		},
		"a batch": {"[" + ping + "]\n", "[" + ping + "]\n", ""},
		"a batch of a new client": {
			asks + "2025-06-18\"}}\n[" + ping + "]\n" + ping, asks + "2025-06-18\"}}\n" + ping + "\n", invalid,
		},
		"a batch of an old client":           {asks + "2025-03-26\"}}\n[" + ping + "]", asks + "2025-03-26\"}}\n[" + ping + "]\n", ""},
		"a batch of an unknown version":      {asks + "2024-10-07\"}}\n[" + ping + "]\n" + ping, asks + "2024-10-07\"}}\n" + ping + "\n", invalid},
		"a batch of another unknown version": {asks + "1.0\"}}\n[" + ping + "]\n" + ping, asks + "1.0\"}}\n" + ping + "\n", invalid},
		"a batch of no version": {
			`{"jsonrpc":"2.0","id":0,"method":"initialize"}` + "\n[" + ping + "]\n" + ping, `{"jsonrpc":"2.0","id":0,"method":"initialize"}` + "\n" + ping + "\n", invalid,
		},
		"a batch after a version in a batch": {
			"[" + asks + "2025-06-18\"}}]\n[" + ping + "]", "[" + asks + "2025-06-18\"}}]\n", invalid,
		},
		"a batch after another attempt": {
			asks + "2025-06-18\"}}\n" + asks + "2025-03-26\"}}\n[" + ping + "]", asks + "2025-06-18\"}}\n" + asks + "2025-03-26\"}}\n", invalid,
		},
		"an id that is too large": {
			`{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}` + "\n" + ping, ping + "\n", `"id":99999999999999999999999,"error":{` + invalid,
		},
		"an id that is no integer": {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n" + ping, ping + "\n", `"id":1.5,"error":{` + invalid},
		"a large id":               {`{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}`, `{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}` + "\n", ""},
		"an id beyond exactness":   {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "", invalid},
		"a batch with such an id":  {`[{"jsonrpc":"2.0","id":1e400,"method":"ping"}]` + "\n" + ping, ping + "\n", `"id":null,"error":{` + invalid},
		"a batch of notifications": {"[" + notice + "," + notice + "]", notice + "\n" + notice + "\n", ""},
		"a mixed batch":            {"[" + ping + ", " + notice + "," + pong + "]", notice + "\n[" + ping + "," + pong + "]\n", ""},
		"an empty batch":           {"[]\n" + ping, ping + "\n", invalid},
		"a batch of nothing":       {"[1]\n" + ping, ping + "\n", invalid},
		"a batch of one id twice":  {"[" + ping + "," + ping + "]\n" + ping, ping + "\n", invalid},
	} {
		for how, in := range map[string]io.Reader{"at once": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			var answers bytes.Buffer
			passed, err := io.ReadAll(newLines(io.NopCloser(in), &answers, 5000))
			if err != nil || string(passed) != c.passed {
				t.Errorf("%s, %s: passed %.300q, %v", name, how, passed, err)
			}
			if got := answers.String(); (c.answered == "") != (got == "") || !strings.Contains(got, c.answered) || strings.Count(got, "\n") > 1 {
				t.Errorf("%s, %s: answered %q", name, how, got)
			}
		}
	}
}

// Whatever comes, what is handed on are messages, and what is answered are errors.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\n[]\n[1]\n7\r\n\n\x00"))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":"x","result":{}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 200
		var answers bytes.Buffer
		passed, err := io.ReadAll(newLines(io.NopCloser(bytes.NewReader(b)), &answers, most))
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(bytes.NewReader(passed)); s.Scan(); {
			each := []json.RawMessage{s.Bytes()}
			if s.Bytes()[0] == '[' && (json.Unmarshal(s.Bytes(), &each) != nil || len(each) == 0) {
				t.Fatalf("handed on %q", s.Bytes())
			}
			for _, m := range each {
				if _, err := jsonrpc.DecodeMessage(m); err != nil || len(m) > most {
					t.Fatalf("handed on %q: %v", m, err)
				}
			}
		}
		for s := bufio.NewScanner(&answers); s.Scan(); {
			var a struct {
				Error struct{ Code int }
			}
			if json.Unmarshal(s.Bytes(), &a) != nil || a.Error.Code >= 0 {
				t.Fatalf("answered %q", s.Bytes())
			}
		}
	})
}
