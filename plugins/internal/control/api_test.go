package control

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestMetadataQuery holds the encoding to what the provider's own client was seen to
// send.
func TestMetadataQuery(t *testing.T) {
	q := url.Values{"metadata": {EncodeMetadata(map[string]string{"k 1": "v&=2"})}}
	if got, want := q.Encode(), "metadata=k%2525201%3Dv%252526%25253D2"; got != want {
		t.Errorf("the query is %s, want %s", got, want)
	}
}

// TestEscape: ids of snapshots hold a team and a tag.
func TestEscape(t *testing.T) {
	if got, want := Escape("team/name:default"), "team%2Fname%3Adefault"; got != want {
		t.Errorf("Escape = %s, want %s", got, want)
	}
}

// TestNeutral is the table of states.
func TestNeutral(t *testing.T) {
	for state, words := range map[backend.State][]string{
		backend.StateRunning:       {"running", "available", ""},
		backend.StatePaused:        {"paused"},
		backend.StateTransitioning: {"pausing", "resuming", "pending", "creating", "starting", "provisioning", "snapshotting"},
		backend.StateTerminated:    {"killed", "killing", "terminated", "stopped", "deleted", "failed", "error"},
		backend.StateUnknown:       {"hibernating", "Running", "gone?"},
	} {
		for _, w := range words {
			if got := Neutral(w); got != state {
				t.Errorf("%q is %s, want %s", w, got, state)
			}
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, -1: -1, -time.Hour: -1, time.Hour: 3600} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %d, want %d", d, got, want)
		}
	}
}

// TestVersions: a server without a route is asked for the other version once.
func TestVersions(t *testing.T) {
	none := answer{404, nil, msg("validation error: no matching operation was found")}
	ok := answer{201, nil, `{}`}
	for name, c := range map[string]struct {
		answers []answer
		want    []int // calls after each of three uses
		kind    backend.Kind
	}{
		"the first version":       {[]answer{ok}, []int{1, 2, 3}, ""},
		"the second version":      {[]answer{none, ok}, []int{2, 3, 4}, ""},
		"neither":                 {[]answer{none}, []int{2, 4, 6}, backend.KindUnsupported},
		"an absent subject":       {[]answer{{404, nil, msg("sandbox not found")}}, []int{1, 2, 3}, backend.KindNotFound},
		"a failure of the second": {[]answer{none, {500, nil, msg("x")}}, []int{2, 3, 4}, backend.KindUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			api, calls, _ := scripted(t, c.answers...)
			var v Versions
			for i, want := range c.want {
				_, err := v.Do(t.Context(), api, Call{Op: "Op", Class: fault.Sandbox, Method: http.MethodPost, Path: "/x"})
				if int(calls.Load()) != want || err == nil != (c.kind == "") || err != nil && backend.KindOf(err) != c.kind {
					t.Errorf("use %d: %d calls, %v; want %d, %s", i, calls.Load(), err, want, c.kind)
				}
			}
		})
	}
}

// TestPages: all pages, and an end whatever the server does.
func TestPages(t *testing.T) {
	pages := func(tokens ...string) []answer {
		var list []answer
		for i, token := range tokens {
			a := answer{200, map[string]string{}, fmt.Sprintf("[%d]", i)}
			if token != "" {
				a.header["X-Next-Token"] = token
			}
			list = append(list, a)
		}
		return list
	}
	var endless []string
	for i := range maxPages + 10 {
		endless = append(endless, "t"+strconv.Itoa(i))
	}
	for name, c := range map[string]struct {
		answers []answer
		items   int
		calls   int
	}{
		"one":                  {pages(""), 1, 1},
		"three":                {pages("a", "b", ""), 3, 3},
		"none":                 {[]answer{{200, nil, "[]"}}, 0, 1},
		"the same for ever":    {pages("a", "a", "a"), -1, 2},
		"a circle":             {pages("a", "b", "a", "b"), -1, 3},
		"no end":               {pages(endless...), -1, maxPages},
		"a failure in between": {append(pages("a"), answer{400, nil, msg("x")}), -1, 2},
		"no list":              {[]answer{{200, nil, `{"sandboxes":[]}`}}, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api, calls, _ := scripted(t, c.answers...)
			got, err := Pages[int](t.Context(), api, Call{Op: "List", Class: fault.Listing, Method: http.MethodGet, Path: "/x"})
			if int(calls.Load()) != c.calls || (c.items < 0) != (err != nil) || c.items >= 0 && len(got) != c.items || err != nil && got != nil {
				t.Errorf("%d items in %d calls, %v; want %d in %d", len(got), calls.Load(), err, c.items, c.calls)
			}
			if backend.ProvesGone(err) {
				t.Error("a listing proves that a sandbox is gone")
			}
		})
	}
}
