package host

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/caisson-run/caisson/sdk/backend"
)

// RequestIDHeader carries the id of a request: in the request, if who sent it has one
// for it, and in every answer.
const RequestIDHeader = "X-Request-Id"

// RequestID is the id of the request that ctx serves: that of the platform, if it put
// one there with backend.WithRequestID, else the one that the request brought, if it
// looks like one, else a new one. It is in answers, logs, calls to plugins and usage
// records. Callers choose theirs, so it proves nothing.
func RequestID(ctx context.Context) string { return backend.RequestID(ctx) }

// Identify gives a request its id, if it has none, and tells its answer. Routes that are
// mounted do so; it is for what a server answers beside them.
func Identify(w http.ResponseWriter, r *http.Request) *http.Request {
	id := RequestID(r.Context())
	if id == "" {
		if id = broughtID(r.Header); id == "" {
			id = rand.Text()
		}
		r = r.WithContext(backend.WithRequestID(r.Context(), id))
	}
	r.Header.Set(RequestIDHeader, id) // for another node that may answer
	w.Header().Set(RequestIDHeader, id)
	return r
}

// renamed gives a request that was let in the id that its platform has for it.
func renamed(ctx context.Context, w http.ResponseWriter, p *Principal) context.Context {
	id := RequestID(ctx)
	switch p.RequestID {
	case "":
		p.RequestID = id
	case id:
	default:
		ctx = backend.WithRequestID(ctx, p.RequestID)
		w.Header().Set(RequestIDHeader, p.RequestID)
	}
	return ctx
}

// Lengths of an id that is taken over from a caller.
const minRequestID, maxRequestID = 8, 64

// broughtID is the one id of a request's headers, of letters, digits and . _ - and of
// a length that ids have. Whatever else is there is no id: it goes into logs.
func broughtID(h http.Header) string {
	ids := h.Values(RequestIDHeader)
	if len(ids) != 1 || len(ids[0]) < minRequestID || len(ids[0]) > maxRequestID {
		return ""
	}
	for _, c := range []byte(ids[0]) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return ""
		}
	}
	return ids[0]
}
