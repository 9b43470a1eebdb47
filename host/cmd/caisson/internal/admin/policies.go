package admin

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/caisson-run/caisson/host"
)

// maxAsked is how many decisions one request may ask for.
const maxAsked = 1000

func policyRoutes(mux *http.ServeMux, p PolicyOperator) {
	mux.HandleFunc("GET /decisions", func(w http.ResponseWriter, r *http.Request) {
		n, ok := asked(w, r)
		if !ok {
			return
		}
		ds, err := p.Decisions(n)
		out := Decisions{Decisions: ds}
		if ds == nil {
			out.Decisions = []*host.Decision{}
		}
		if err != nil {
			out.Failed = err.Error()
		}
		reply(w, http.StatusOK, out)
	})
	mux.HandleFunc("POST /plugins/{name}/replay", func(w http.ResponseWriter, r *http.Request) {
		n, ok := asked(w, r)
		if !ok {
			return
		}
		dir := r.FormValue("dir")
		if !filepath.IsAbs(dir) {
			reply(w, http.StatusBadRequest, failure{Error: "dir: must be an absolute path"})
			return
		}
		report, err := p.ReplayPolicy(r.Context(), r.PathValue("name"), dir, n)
		answer(w, report, err)
	})
}

// asked is how many decisions a request is about.
func asked(w http.ResponseWriter, r *http.Request) (int, bool) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil || n < 1 || n > maxAsked {
		reply(w, http.StatusBadRequest, failure{Error: "n: must be a number from 1 to 1000"})
		return 0, false
	}
	return n, true
}

// PolicyOperator is what the server's side needs to look at policies. *host.Host
// implements it.
type PolicyOperator interface {
	Decisions(n int) ([]*host.Decision, error)
	ReplayPolicy(ctx context.Context, name, dir string, n int) (host.Replay, error)
}

// Decisions are the newest of the policy chain, oldest first. Failed says why the
// decision log is not written any more.
type Decisions struct {
	Decisions []*host.Decision `json:"decisions"`
	Failed    string           `json:"failed,omitempty"`
}

// Decisions returns the newest n.
func (c *Client) Decisions(ctx context.Context, n int) (out Decisions, err error) {
	return out, c.do(ctx, http.MethodGet, "/decisions?n="+strconv.Itoa(n), nil, &out)
}

// ReplayPolicy is host.Host.ReplayPolicy.
func (c *Client) ReplayPolicy(ctx context.Context, name, dir string, n int) (out host.Replay, err error) {
	q := url.Values{"dir": {dir}, "n": {strconv.Itoa(n)}}
	return out, c.do(ctx, http.MethodPost, "/plugins/"+url.PathEscape(name)+"/replay?"+q.Encode(), nil, &out)
}
