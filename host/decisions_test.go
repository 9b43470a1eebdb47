package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

func TestPolicyModes(t *testing.T) {
	deny := answer(`{"decision":"deny","reason":"no","code":"nope"}`)
	tight := answer(`{"decision":"allow","limits":{"wall_ms":500}}`)
	broken := scripted(func(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("trap") })
	for _, c := range []struct {
		name     string
		p        boundPolicy
		denied   string // by this code
		wall     int64
		warnings int
		fails    bool
	}{
		{"deny denies", boundPolicy{module: deny}, "nope", 0, 0, false},
		{"deny, spelled out", boundPolicy{module: deny, mode: PolicyDeny}, "nope", 0, 0, false},
		{"warn tells", boundPolicy{module: deny, mode: PolicyWarn}, "", 1000, 1, false},
		{"observe is silent", boundPolicy{module: deny, mode: PolicyObserve}, "", 1000, 0, false},
		{"deny tightens", boundPolicy{module: tight}, "", 500, 0, false},
		{"warn leaves limits", boundPolicy{module: tight, mode: PolicyWarn}, "", 1000, 0, false},
		{"observe leaves limits", boundPolicy{module: tight, mode: PolicyObserve}, "", 1000, 0, false},
		{"a failure denies", boundPolicy{module: broken}, "policy_failed", 0, 0, true},
		{"a failure passes where it may", boundPolicy{module: broken, failOpen: true}, "", 1000, 0, true},
		{"failing open does not excuse a deny", boundPolicy{module: deny, failOpen: true}, "nope", 0, 0, false},
		{"an observer that fails is in nobody's way", boundPolicy{module: broken, mode: PolicyObserve}, "", 1000, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.name = "p"
			h := serve(&moduleSet{chain: newChain(policies{c.p})})
			h.decisions = &decisions{}
			r, err := h.Admit(t.Context(), policy.Request{Org: "o", Code: "x", Limits: policy.Limits{WallMS: 1000}})
			var pe *PolicyError
			if c.denied != "" && (!errors.As(err, &pe) || pe.Code != c.denied) || c.denied == "" && err != nil {
				t.Fatalf("%+v %v", r, err)
			}
			if r.Limits.WallMS != c.wall || len(r.Warnings) != c.warnings {
				t.Errorf("%+v", r)
			}
			ds, err := h.Decisions(10)
			if err != nil || len(ds) != 1 || ds[0].Allowed != (c.denied == "") || len(ds[0].Rulings) != 1 {
				t.Fatalf("decisions %+v %v", ds, err)
			}
			got := ds[0].Rulings[0]
			if got.Policy != "p" || got.Mode == "" || got.Limits.WallMS != 1000 || (got.Error != "") != c.fails {
				t.Errorf("ruling %+v", got)
			}
		})
	}
}

func TestDecisionsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	ds, err := openDecisions(path, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20)
	for range 40 {
		ds.record(&Decision{Request: policy.Request{Code: big}})
	}
	if last, _ := ds.last(100); len(last) != 16 || ds.held != 16<<20 {
		t.Errorf("%d decisions of %d bytes", len(last), ds.held)
	}
	for range 3000 {
		ds.record(&Decision{Request: policy.Request{Org: "small"}})
	}
	last, err := ds.last(5000)
	if err != nil || len(last) != maxDecisions || ds.held != 0 || last[0].Request.Org != "small" {
		t.Errorf("%d decisions of %d bytes, %v", len(last), ds.held, err)
	}
	if err := ds.close(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	b, err := os.ReadFile(path)
	if err != nil || bytes.Count(b, []byte("\n")) != 3040 {
		t.Errorf("%d lines, %v", bytes.Count(b, []byte("\n")), err)
	}
	var d Decision
	if err := json.Unmarshal(b[bytes.LastIndexByte(b[:len(b)-1], '\n')+1:], &d); err != nil || d.Request.Org != "small" {
		t.Errorf("%+v %v", d, err)
	}
	// What cannot be written is told, and costs no request.
	ds.record(&Decision{})
	if _, err := ds.last(1); err == nil {
		t.Error("the file is closed and nobody is told")
	}
}

// A candidate is asked what the policy in use was asked, with what it was shown.
func TestReplay(t *testing.T) {
	byOrg := func(denied ...string) scripted {
		return func(_ context.Context, _ uint32, in []byte) ([]byte, error) {
			r, err := policy.DecodeRequest(in)
			if err != nil || r.Limits.WallMS != 700 {
				return nil, errors.New("it was shown something else")
			}
			for _, d := range denied {
				switch r.Org {
				case d:
					return []byte(`{"decision":"deny","reason":"no"}`), nil
				case "trap":
					return nil, errors.New("trap")
				}
			}
			return []byte(allow), nil
		}
	}
	first := boundPolicy{name: "first", module: answer(`{"decision":"allow","limits":{"wall_ms":700}}`)}
	h := serve(&moduleSet{chain: newChain(policies{first, {name: "second", module: byOrg("evil")}})})
	h.log, h.decisions = hclog.NewNullLogger(), &decisions{}
	for _, org := range []string{"acme", "evil", "other", "acme"} {
		_, _ = h.Admit(t.Context(), policy.Request{Org: org, Limits: policy.Limits{WallMS: 1000}})
	}
	next := &moduleSet{chain: newChain(policies{first, {name: "second", module: byOrg("other")}})}
	r, err := h.replay(t.Context(), next, "second", 100)
	if err != nil || r.Requests != 4 || r.Same != 2 || r.Stricter != 1 || r.Looser != 1 || r.Failed != 0 || len(r.Changes) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if c := r.Changes[0]; c.Decision.Request.Org != "other" || c.Was.Decision != policy.Allow || c.Is.Decision != policy.Deny {
		t.Errorf("the newest difference: %+v", c)
	}
	_, _ = h.Admit(t.Context(), policy.Request{Org: "trap", Limits: policy.Limits{WallMS: 1000}})
	h.decisions.latest[4].Rulings[1].Error = "" // as if it had been judged
	if r, err := h.replayed(t.Context(), next, "second", 1); err == nil || r.Failed != 1 {
		t.Errorf("%+v %v", r, err)
	}
}
