package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/caisson-run/caisson/sdk/backend"
)

// told is one event of a stream.
type told struct {
	id, name string
	data     json.RawMessage
}

// next reads one event or comment, whose name is then ":".
func next(r *bufio.Reader) (e told, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = json.RawMessage(value)
		case ":":
			e.name = ":"
		case "":
			return e, nil
		default:
			return e, fmt.Errorf("unexpected line %q", line)
		}
	}
}

// stream begins a run that is answered with events.
func (r *rig) stream(ctx context.Context, key string, body obj) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	q := r.request("POST", key, "/v1/exec", strings.NewReader(string(b))).WithContext(ctx)
	q.Header.Set("Accept", "text/event-stream")
	res, err := r.server.Client().Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { res.Body.Close() })
	return res, bufio.NewReader(res.Body)
}

// rest reads a stream to its end.
func rest(t *testing.T, r *bufio.Reader) (events []told) {
	t.Helper()
	for {
		e, err := next(r)
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return events
		}
		events = append(events, e)
	}
}

func TestStreamedRun(t *testing.T) {
	r := newRig(t)
	in := r.upload(rich, csv("in.txt", "in"))
	body := obj{
		"lang":  "bash",
		"code":  `printf 'one é\n'; printf '\342\202' ; sleep 0.2; printf '\254\377\n'; echo bad >&2; echo x > a; mkdir d; echo y > d/b; exit 3`,
		"files": []CodeFile{in.ref(0, "in.txt"), {ID: "AAAAAAAAAAAAAAAAAAAAA", Name: "gone.txt", StorageSessionID: "AAAAAAAAAAAAAAAAAAAAA"}},
	}
	res, events := r.stream(t.Context(), rich, body)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Content-Length") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	all := rest(t, events)
	var names []string
	texts := make(map[string]string)
	var files []CodeFile
	for k, e := range all {
		if e.id != fmt.Sprint(k+1) {
			t.Errorf("event %d has id %s", k+1, e.id)
		}
		if !slices.Contains(names, e.name) { // the two streams have no common order
			names = append(names, e.name)
		}
		var d struct{ Text string }
		switch e.name {
		case "stdout", "stderr":
			if err := json.Unmarshal(e.data, &d); err != nil || d.Text == "" {
				t.Errorf("%s %q: %v", e.name, e.data, err)
			}
			texts[e.name] += d.Text
		case "file":
			var f CodeFile
			if err := json.Unmarshal(e.data, &f); err != nil {
				t.Error(err)
			}
			files = append(files, f)
		}
	}
	if got := strings.Join(names, " "); got != "started stdout stderr file result" || all[len(all)-1].name != "result" {
		t.Errorf("events are %s", got)
	}
	var result CodeResult
	if err := json.Unmarshal(all[len(all)-1].data, &result); err != nil {
		t.Fatal(err)
	}
	if texts["stdout"] != "one é\n€\ufffd\n" || result.Stdout != texts["stdout"] || *result.Code != 3 {
		t.Errorf("stdout came as %q, the result is %+v", texts["stdout"], result)
	}
	if texts["stderr"] != "bad\n" || result.Stderr != "input files not available in this session: gone.txt\nbad\n" {
		t.Errorf("stderr came as %q, the result is %+v", texts["stderr"], result)
	}
	if fileNames(result.Files) != "a d/b (in.txt)" || !reflect.DeepEqual(files, result.Files[:2]) {
		t.Errorf("files came as %+v, the result is %+v", files, result.Files)
	}
	if want := `{"session_id":"` + result.SessionID + `"}`; string(all[0].data) != want {
		t.Errorf("started says %s, want %s", all[0].data, want)
	}
	// The same path, the same bill.
	if u := r.usage(); len(u) != 1 || u[0].Cents != 1 || u[0].Session != result.SessionID || u[0].ExitCode != 3 {
		t.Errorf("usage = %+v", u)
	}
}

// Events come while the program runs, and whoever hangs up stops it and pays.
func TestStreamedHangUp(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "true").SessionID
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	_, events := r.stream(ctx, rich, obj{"lang": "bash", "code": "echo $$ > pid; echo here; sleep 60", "session_id": s})
	for _, want := range []string{"started", "stdout"} {
		if e, err := next(events); err != nil || e.name != want {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	hangUp()
	// The next run of the session waits for this one to be over.
	if res := r.exec(alice, "kill -0 $(cat pid) 2>/dev/null && echo lives; true", obj{"session_id": s}); res.Stdout != "" {
		t.Errorf("%+v", res)
	}
	var u []ledger.Record
	for _, rec := range r.usage() {
		if rec.Payer == "w-rich" {
			u = append(u, rec)
		}
	}
	if len(u) != 1 || u[0].Outcome != "canceled" || u[0].Cents != 1 {
		t.Errorf("usage = %+v", u)
	}
}

// A reader that takes nothing is gone after a while: its program is stopped, and the
// next one has its place.
func TestStalledReader(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Stall = 100 * time.Millisecond; o.TenantRunning = 1 })
	r.limits.StdoutBytes = 256 << 20
	_, events := r.stream(t.Context(), rich, obj{"lang": "bash", "code": "yes 0123456789012345678901234567890123456789"})
	if e, err := next(events); err != nil || e.name != "started" {
		t.Fatalf("%+v, %v", e, err)
	}
	r.exec(alice, "true") // once there is room
	for _, u := range r.usage() {
		if u.Payer == "w-rich" && u.Outcome != "canceled" {
			t.Errorf("usage = %+v", u)
		}
	}
}

// Refusals before the first byte have their own status; later ones are an event.
func TestStreamedFailures(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]int{
		`{"lang":"cobol","code":"x"}`: 400, `{`: 400, `{"lang":"bash","code":"true"}`: 402,
	} {
		q := r.request("POST", broke, "/exec", strings.NewReader(body))
		q.Header.Set("Accept", "text/event-stream")
		a := r.do(q)
		if e := into[obj](t, a, want); a.header.Get("Content-Type") != "application/json" || e["status"] != float64(want) {
			t.Errorf("%s: %v %s", body, a.header, a.body)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		q := r.still()
		post := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(host.WithPrincipal(t.Context(), q.p), "POST", "/exec", strings.NewReader(trueProgram))
			req.Header.Set("Accept", "text/event-stream")
			q.h.ServeHTTP(w, req)
			return w
		}
		down := &backend.Error{Kind: backend.KindUnavailable, Message: "10.1.2.3"}
		r.sleeps(time.Second, down)
		if w := post(); w.Code != 503 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("an early failure: %d %v %q", w.Code, w.Header(), w.Body)
		}
		r.sleeps(7*time.Second, down)
		w := post()
		const want = ":\n\n:\n\nid: 1\nevent: failure\ndata: {\"error\":\"the sandbox backend cannot be reached now\"," +
			"\"message\":\"the sandbox backend cannot be reached now\",\"status\":503,\"code\":\"sandbox_unavailable\"}\n\n"
		if w.Code != 200 || w.Body.String() != want {
			t.Errorf("a late failure: %d %q", w.Code, w.Body)
		}
		r.shells.onRun = func(_ context.Context, _ backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
			if err := errors.Join(rio.Started(), rio.Stdout([]byte("before"))); err != nil {
				t.Error(err)
			}
			panic("late")
		}
		w = post()
		if all := rest(t, bufio.NewReader(w.Body)); len(all) != 3 || all[0].name != "started" || all[1].name != "stdout" ||
			all[2].name != "failure" || !strings.Contains(string(all[2].data), `"internal error"`) {
			t.Errorf("a panic: %q", all)
		}
		// Silence is broken by comments.
		r.sleeps(10*time.Second, nil)
		var names []string
		for _, e := range rest(t, bufio.NewReader(post().Body)) {
			names = append(names, e.name)
		}
		if got := strings.Join(names, " "); got != "started : : : result" {
			t.Errorf("events are %s", got)
		}
	})
}

// Output that is cut ends at a character and at the limit, as in the result.
func TestStreamedOutputIsCapped(t *testing.T) {
	r := newRig(t)
	r.limits.StdoutBytes = 70_000 // within a character
	_, events := r.stream(t.Context(), alice, obj{"lang": "bash", "code": "yes 'é' | head -n 100000"})
	all := rest(t, events)
	var text string
	for _, e := range all {
		var d struct{ Text string }
		if e.name == "stdout" && json.Unmarshal(e.data, &d) == nil {
			text += d.Text
		}
	}
	var result CodeResult
	if err := json.Unmarshal(all[len(all)-1].data, &result); err != nil {
		t.Fatal(err)
	}
	if result.Stdout != text || len(text) != 69_999 || *result.Status != "OL" {
		t.Errorf("%d bytes came, %d are in the result, status %v", len(text), len(result.Stdout), result.Status)
	}
}

// Events pass through another node as they happen, and so does hanging up.
func TestStreamedByAnotherNode(t *testing.T) {
	owner, other := twoNodes(t)
	id := owner.exec(alice, "true").SessionID
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	res, events := other.stream(ctx, alice, obj{"lang": "bash", "code": "echo $$ > pid; echo here; sleep 60", "session_id": id})
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("answered with %q", got)
	}
	for _, want := range []string{"started", "stdout"} {
		if e, err := next(events); err != nil || e.name != want {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	hangUp()
	if res := other.exec(alice, "kill -0 $(cat pid) 2>/dev/null && echo lives; true", obj{"session_id": id}); res.SessionID != id || res.Stdout != "" {
		t.Errorf("%+v", res)
	}
}
