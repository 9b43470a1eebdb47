package controlfake

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for k := range q {
		if !slices.Contains([]string{"metadata", "state", "limit", "nextToken", "order", "template", "startedAfter"}, k) {
			s.violation("listing with a parameter %q", k)
		}
	}
	limit, err := strconv.Atoi(q.Get("limit"))
	if q.Get("limit") == "" {
		limit, err = 100, nil
	}
	if err != nil || limit < 1 || limit > 100 {
		s.violation("listing with limit %q", q.Get("limit"))
		s.refuse(w, http.StatusBadRequest, "validation error: limit")
		return
	}
	want, ok := s.parseFilter(q.Get("metadata"))
	if !ok {
		s.violation("listing with metadata %q", q.Get("metadata"))
		s.refuse(w, http.StatusBadRequest, "invalid metadata")
		return
	}
	states := []string{"running", "paused"}
	if v := q.Get("state"); v != "" {
		states = strings.Split(v, ",")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []map[string]any
	for _, id := range slices.Sorted(maps.Keys(s.boxes)) {
		b := s.boxes[id]
		state := b.state
		if state == "pausing" {
			state = "paused"
		}
		if !slices.Contains(states, state) || s.quirks.HidePaused && state == "paused" || !s.quirks.IgnoreFilter && !matches(b.metadata, want) {
			continue
		}
		item := s.detail(b)
		delete(item, "envdAccessToken")
		found = append(found, item)
	}
	page(s, w, q, found, limit)
}

// page cuts a listing. Its token is the place where the next page begins.
func page[T any](s *Server, w http.ResponseWriter, q url.Values, all []T, limit int) {
	if s.quirks.Unpaged > 0 {
		reply(w, http.StatusOK, append([]T{}, all[:min(len(all), s.quirks.Unpaged)]...))
		return
	}
	if s.o.PageSize > 0 {
		limit = min(limit, s.o.PageSize)
	}
	from, err := strconv.Atoi(strings.TrimPrefix(q.Get("nextToken"), "at-"))
	if q.Get("nextToken") == "" {
		from, err = 0, nil
	}
	if err != nil || from < 0 || from > len(all) {
		s.refuse(w, http.StatusBadRequest, "invalid token")
		return
	}
	to := min(from+limit, len(all))
	if to < len(all) {
		w.Header().Set("X-Next-Token", "at-"+strconv.Itoa(to))
	}
	if s.quirks.RepeatPages {
		w.Header().Set("X-Next-Token", "at-0")
	}
	reply(w, http.StatusOK, append([]T{}, all[from:to]...))
}

// parseFilter decodes once more than the query was, takes the pairs apart, and
// decodes those once more; the other provider decodes once less.
func (s *Server) parseFilter(v string) (map[string]string, bool) {
	out := map[string]string{}
	if v == "" {
		return out, true
	}
	var err error
	if s.o.Provider == E2B {
		if v, err = url.QueryUnescape(v); err != nil {
			return nil, false
		}
	}
	for _, pair := range strings.Split(v, "&") {
		key, value, ok := strings.Cut(pair, "=")
		key, keyErr := url.QueryUnescape(key)
		value, valueErr := url.QueryUnescape(value)
		if !ok || keyErr != nil || valueErr != nil {
			return nil, false
		}
		out[key] = value
	}
	return out, true
}

func matches(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
