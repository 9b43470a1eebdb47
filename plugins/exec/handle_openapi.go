package exec

import (
	"net/http"

	"github.com/caisson-run/caisson/plugins/exec/openapi"
)

// describe answers GET /openapi.json. What it says is the same for everybody.
func describe(w http.ResponseWriter, r *http.Request) error {
	openapi.Serve(w, r)
	return nil
}
