package exec

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// documented returns an error for an answer that is not one that the document
// describes. Every answer that the rig's clients get goes through it.
func (r *rig) documented(q *http.Request, a answer) error {
	doc, err := loadDocument()
	if err != nil {
		return err
	}
	_, pattern := r.mux.Handler(q)
	_, route, ok := strings.Cut(pattern, " ")
	if !ok || a.status == http.StatusMethodNotAllowed {
		return nil
	}
	route = strings.TrimSuffix(plain(route), "/{$}")
	var item *openapi3.PathItem
	for _, base := range []string{Path, "/v1", ""} {
		if p, ok := strings.CutPrefix(route, base); ok && item == nil {
			item = doc.Paths.Value(p)
		}
	}
	method := q.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if item == nil || item.GetOperation(method) == nil {
		return nil // a test's own route, or one that only refuses
	}
	op := item.GetOperation(method)
	res := op.Responses.Status(a.status)
	if res == nil {
		return fmt.Errorf("openapi.yaml: %s answered %d, which it does not list: %s", op.OperationID, a.status, a.body)
	}
	listed := slices.Clone(transport)
	for name := range res.Value.Headers {
		listed = append(listed, http.CanonicalHeaderKey(name))
	}
	for name := range a.header {
		if !slices.Contains(listed, name) {
			return fmt.Errorf("openapi.yaml: %s answered %d with %s, which it does not list", op.OperationID, a.status, name)
		}
	}
	if q.Method == http.MethodHead || len(a.body) == 0 && len(res.Value.Content) == 0 {
		return nil
	}
	media := res.Value.Content.Get(a.header.Get("Content-Type"))
	if media == nil {
		return fmt.Errorf("openapi.yaml: %s answered %d with %q, which it does not list", op.OperationID, a.status, a.header.Get("Content-Type"))
	}
	var v any
	if media.Schema == nil || a.header.Get("Content-Type") != "application/json" || json.Unmarshal(a.body, &v) != nil {
		return nil // an answer that broke off is some tests' subject
	}
	if err := media.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors()); err != nil {
		return fmt.Errorf("openapi.yaml: %s answered %d with another body than it describes: %w", op.OperationID, a.status, err)
	}
	return nil
}

// transport are headers of answers that no document lists: of HTTP itself, and of every
// answer whatever it is.
var transport = []string{"Connection", "Content-Length", "Content-Type", "Date", "X-Content-Type-Options"}

// Answers that the document does not describe are found.
func TestDocumentIsEnforced(t *testing.T) {
	r := newRig(t)
	for name, a := range map[string]answer{
		"status": {status: 418, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{}`)},
		"type":   {status: 200, header: http.Header{"Content-Type": {"text/plain"}}, body: []byte(`{}`)},
		"header": {status: 200, header: http.Header{"Content-Type": {"application/json"}, "Etag": {"x"}}, body: []byte(`{}`)},
		"body":   {status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{"session_id":1}`)},
	} {
		if r.documented(r.request("POST", alice, "/v1/exec", nil), a) == nil {
			t.Errorf("another %s passes", name)
		}
	}
}
