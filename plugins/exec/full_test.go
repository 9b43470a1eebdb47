package exec

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// errNoSpace is what backends say of a sandbox that cannot take a file.
var errNoSpace = &backend.Error{Kind: backend.KindCapacity, Subject: backend.SubjectFile, Plane: backend.PlaneData, Message: "/mnt/data/f: full"}

// fails makes runs fail before they start.
func (r *rig) fails(err error) {
	r.shells.onRun = func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error, bool) {
		return backend.RunResult{}, err, true
	}
}

// A session that is full is no rate limit: nobody is told to wait for what does not come.
func TestFullSession(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "true").SessionID
	full := func(what string, a answer) {
		t.Helper()
		e := into[obj](t, a, 413)
		if e["code"] != codeFull || e["error"] != sandboxFull || e["retry_after_seconds"] != nil || a.header.Get("Retry-After") != "" {
			t.Errorf("%s: %v %v", what, e, a.header)
		}
	}
	r.fails(errNoSpace)
	full("a run", r.post(alice, "/exec", obj{"lang": "bash", "code": "true", "session_id": s}))
	r.shells.onWrite = func() error { return errNoSpace }
	full("an upload", r.send(alice, "/upload", field{"session_id", "", s}, csv("a", "1")))

	n := 0
	r.shells.onWrite = func() error {
		if n++; n == 1 {
			return errNoSpace
		}
		return nil
	}
	b := into[batchReply](t, r.send(alice, "/upload/batch", csv("large", "1"), csv("small", "2")), 200)
	if b.Message != "partial_success" || b.Succeeded != 1 || b.Files[0].Error != sandboxFull {
		t.Errorf("a batch: %+v", b)
	}

	r.shells.onWrite = nil
	r.fails(&backend.Error{Kind: backend.KindCapacity, Subject: backend.SubjectSandbox})
	if a := r.post(alice, "/exec", obj{"lang": "bash", "code": "true", "session_id": s}); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a backend without room answers %d %v", a.status, a.header)
	}
}

// A reply that fails late has a session id all the same, which can be continued.
func TestLateFailuresNameASession(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		late := func(what string) string {
			var res struct {
				SessionID string `json:"session_id"`
				Status    string
				Error     string
			}
			w := q.post(t.Context(), trueProgram)
			if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || w.Code != 200 || res.Status != "XX" || len(res.SessionID) != 21 || strings.Contains(w.Body.String(), codeRateLimited) != (what == "no room") {
				t.Fatalf("%s: %d %s, %v", what, w.Code, w.Body, err)
			}
			return res.SessionID
		}
		r.sleeps(7*time.Second, errNoSpace)
		discarded := late("a full sandbox")
		r.shells.onRun = nil
		r.shells.onCreate = func() error {
			time.Sleep(4 * time.Second)
			return &backend.Error{Kind: backend.KindCapacity, Subject: backend.SubjectSandbox}
		}
		never := late("no room")
		r.shells.onCreate = nil
		if n := len(r.shells.live()); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
		for _, s := range []string{discarded, never} {
			w := q.post(t.Context(), `{"lang":"bash","code":"true","session_id":"`+s+`"}`)
			var res CodeResult
			if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || res.SessionID != s {
				t.Errorf("session %s is continued as %s, %v", s, w.Body, err)
			}
		}
	})
}
