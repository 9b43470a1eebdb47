package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// The document is what OpenAPI 3.1 says one is.
func TestDocumentIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(JSON())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Error(err)
	}
	for name, s := range doc.Components.Schemas {
		for member, m := range s.Value.Properties {
			if m.Value == nil {
				t.Errorf("%s.%s has no schema", name, member)
			}
		}
	}
}

// Every answer has a request's id.
func TestAnswersHaveIDs(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(JSON())
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, res := range op.Responses.Map() {
				if res.Value.Headers["X-Request-Id"] == nil {
					t.Errorf("%s %s: %s has no X-Request-Id", method, path, status)
				}
			}
		}
	}
}

func TestOperations(t *testing.T) {
	seen := make(map[string]bool)
	for _, op := range Operations() {
		if op.ID == "" || seen[op.ID] || op.Summary == "" || !strings.HasSuffix(op.Summary, ".") {
			t.Errorf("%+v: needs an id of its own and a sentence", op)
		}
		seen[op.ID] = true
		if bytes.Contains(op.Detail, []byte(`"$ref"`)) || !json.Valid(op.Detail) {
			t.Errorf("%s is not resolved: %s", op.ID, op.Detail)
		}
	}
	if !seen["runCode"] || !seen["listFiles"] || len(seen) < 12 {
		t.Errorf("operations: %v", seen)
	}
}

func TestServe(t *testing.T) {
	ask := func(tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		Serve(w, r)
		return w
	}
	w := ask("")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || !bytes.Equal(w.Body.Bytes(), JSON()) {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w.Header().Get("Accept-Ranges") != "" {
		t.Errorf("ranges are offered: %v", w.Header())
	}
	for _, part := range []string{"bytes=0-9", "bytes=99999999-", "bytes=x"} {
		r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
		r.Header.Set("Range", part)
		p := httptest.NewRecorder()
		if Serve(p, r); p.Code != 200 || !bytes.Equal(p.Body.Bytes(), JSON()) {
			t.Errorf("%s: %d, %d bytes", part, p.Code, p.Body.Len())
		}
	}
	if again := ask(w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
		t.Errorf("with the tag: %d", again.Code)
	}
}
