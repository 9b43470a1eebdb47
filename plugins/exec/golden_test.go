package exec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the entry answers into the golden exchanges")

// scenario is a file of testdata/wire: what a client sends and what it gets, with
// ids replaced by <id1>, <id2>, … in the order in which they appear.
type scenario struct {
	About     string     `json:"about"`
	Exchanges []exchange `json:"exchanges"`
}

type exchange struct {
	Request  request   `json:"request"`
	Response *reaction `json:"response,omitempty"`
}

type request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Key     string            `json:"key"`
	Headers map[string]string `json:"headers,omitempty"`
	JSON    json.RawMessage   `json:"json,omitempty"`
	Raw     string            `json:"raw,omitempty"`
	Form    []formPart        `json:"form,omitempty"`
}

type formPart struct {
	Name     string `json:"name"`
	Filename string `json:"filename"`
	Value    string `json:"value"`
}

type reaction struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    any               `json:"json,omitempty"`
	Text    string            `json:"text,omitempty"`
}

// pinned are the headers that are part of the contract.
var pinned = []string{"Content-Type", "Content-Disposition", "Retry-After", "Allow", "X-Content-Type-Options", "WWW-Authenticate"}

// ids names ids as they appear.
type ids struct{ names, values map[string]string }

func (x ids) fill(s string) string {
	for name, v := range x.values {
		s = strings.ReplaceAll(s, name, v)
	}
	return s
}

// learn replaces ids in a decoded answer, naming new ones.
func (x ids) learn(v any) any {
	switch v := v.(type) {
	case []any:
		for k := range v {
			v[k] = x.learn(v[k])
		}
	case map[string]any:
		// The order of members is not theirs: sessions first, then files.
		for _, key := range []string{"session_id", "storage_session_id", "id", "fileId"} {
			if s, ok := v[key].(string); ok && len(s) == 21 && x.names[s] == "" {
				name := fmt.Sprintf("<id%d>", len(x.names)+1)
				x.names[s], x.values[name] = name, s
			}
		}
		if _, ok := v["wall_time"]; ok {
			v["wall_time"] = 0.0
		}
		for _, key := range []string{"files"} { // in the order of the answer, before anything refers to them
			if l, ok := v[key]; ok {
				v[key] = x.learn(l)
			}
		}
		for key := range v {
			v[key] = x.learn(v[key])
		}
	case string:
		for s, name := range x.names {
			v = strings.ReplaceAll(v, s, name)
		}
		return v
	}
	return v
}

func TestGoldenExchanges(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "wire", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s scenario
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			r := newRig(t)
			x := ids{make(map[string]string), make(map[string]string)}
			for k := range s.Exchanges {
				s.Exchanges[k].Response = r.exchange(s.Exchanges[k].Request, x)
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(s); err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(b.Bytes(), raw) {
				t.Errorf("the exchange is not as recorded (go test -update records it):\n%s", b.Bytes())
			}
		})
	}
}

func (r *rig) exchange(q request, x ids) *reaction {
	r.t.Helper()
	var body bytes.Buffer
	contentType := "application/json"
	switch {
	case q.Form != nil:
		parts := make([]field, len(q.Form))
		for k, p := range q.Form {
			parts[k] = field{p.Name, p.Filename, p.Value}
		}
		var b any
		b, contentType = form(r.t, parts...)
		body = *b.(*bytes.Buffer)
	case q.JSON != nil:
		body.WriteString(x.fill(string(q.JSON)))
	default:
		body.WriteString(q.Raw)
	}
	h := r.request(q.Method, q.Key, x.fill(q.Path), &body)
	h.Header.Set("Content-Type", contentType)
	for k, v := range q.Headers {
		h.Header.Set(k, v)
	}
	a := r.do(h)
	out := &reaction{Status: a.status, Headers: make(map[string]string)}
	for _, k := range pinned {
		if v := a.header.Get(k); v != "" {
			out.Headers[k] = v
		}
	}
	if a.header.Get("Content-Type") == "application/json" {
		var v any
		if err := json.Unmarshal(a.body, &v); err != nil {
			r.t.Fatalf("%s %s: %v: %s", q.Method, q.Path, err, a.body)
		}
		out.JSON = x.learn(v)
	} else {
		out.Text = string(a.body)
	}
	return out
}
