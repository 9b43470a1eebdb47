// Package openapi is the description of the code interpreter's HTTP interface: an
// OpenAPI 3.1 document, and the operations in it. The document is written by hand; a
// test of plugins/exec compares it with the routes, the types and every answer that the
// tests of that package get.
//
// It serves no operation.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var source []byte

// document is what is served, made once.
var document = sync.OnceValues(func() ([]byte, string) {
	b, err := yaml.YAMLToJSON(source)
	if err != nil {
		panic("openapi: the embedded document is no YAML: " + err.Error()) // a test reads it
	}
	b = append(bytes.TrimSpace(b), '\n')
	sum := sha256.Sum256(b)
	return b, `"` + hex.EncodeToString(sum[:8]) + `"`
})

// JSON returns the document. The caller may keep and change it.
func JSON() []byte {
	b, _ := document()
	return bytes.Clone(b)
}

// Serve answers GET and HEAD with the document. Conditions work; ranges are ignored,
// since it is small. It changes r's headers.
func Serve(w http.ResponseWriter, r *http.Request) {
	b, tag := document()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", tag)
	r.Header.Del("Range")
	http.ServeContent(unranged{w}, r, "", time.Time{}, bytes.NewReader(b))
}

// unranged takes back that ranges work.
type unranged struct{ http.ResponseWriter }

func (w unranged) WriteHeader(status int) {
	w.Header().Del("Accept-Ranges")
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w unranged) Unwrap() http.ResponseWriter { return w.ResponseWriter }
