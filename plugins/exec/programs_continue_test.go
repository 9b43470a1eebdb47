package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// suspended begins a program that has asked for these tools, in one round each if need be.
func (r *rig) suspended(key, code string, tools ...string) said {
	r.t.Helper()
	s := into[said](r.t, r.begin(key, "bash", code, tools), 200)
	if s.Status != "tool_call_required" {
		r.t.Fatalf("%+v", s)
	}
	return s
}

// alive waits until that many programs live, and as many of them are suspended.
func (r *rig) alive(all, waiting int) {
	r.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		a, w := r.programs.Live()
		if a == all && w == waiting {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d programs live, %d wait; want %d and %d", a, w, all, waiting)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestContinuationTwice(t *testing.T) {
	r := newRig(t)
	s := r.suspended(rich, `one '{"city":"a"}'; one '{"city":"b"}'`, "one")
	token, id := s.ContinuationToken, s.ToolCalls[0].ID
	first := r.goOn(rich, token, ok(id, 1))
	next := into[said](t, first, 200)
	if next.ContinuationToken == token || next.ToolCalls[0].ID == id {
		t.Fatalf("%+v", next)
	}
	if again := r.goOn(rich, token, ok(id, 1)); !bytes.Equal(first.body, again.body) || again.status != 200 {
		t.Errorf("the same continuation again: %d %s", again.status, again.body)
	}
	if a := r.goOn(rich, token, ok(id, 2)); a.status != 409 {
		t.Errorf("another result for it: %d %s", a.status, a.body)
	}
	// An answer that was given may come again beside the next.
	if a := r.goOn(rich, next.ContinuationToken, ok(id, 2), ok(next.ToolCalls[0].ID, 2)); a.status != 409 {
		t.Errorf("a call answered differently in a later round: %d %s", a.status, a.body)
	}
	last := r.goOn(rich, next.ContinuationToken, ok(id, 1), ok(next.ToolCalls[0].ID, 2))
	if end := into[said](t, last, 200); end.Status != "completed" || end.Stdout != "1\n2\n" {
		t.Errorf("%+v", end)
	}
	if again := r.goOn(rich, next.ContinuationToken, ok(next.ToolCalls[0].ID, 2), ok(id, 1)); !bytes.Equal(last.body, again.body) {
		t.Errorf("the last continuation again: %d %s", again.status, again.body)
	}
	if a := r.goOn(rich, token, ok(id, 1)); a.status != 409 {
		t.Errorf("an old round: %d %s", a.status, a.body)
	}
	if b := r.balance("w-rich"); b.Balance != 999 || b.Held != 0 || len(r.usage()) != 1 {
		t.Errorf("%+v, %d charges", b, len(r.usage()))
	}
}

func TestContinuationsAtOnce(t *testing.T) {
	r := newRig(t)
	s := r.suspended(alice, `one '{"city":"a"}' > f; sleep 1; cat f`, "one")
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 5 {
		all.Go(func() {
			a := r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, "x"))
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	all.Wait()
	if statuses[200] != 1 || statuses[409] != 4 {
		t.Errorf("statuses %v, want one 200 and four 409", statuses)
	}
}

// parted is a body that tells when more is wanted than a part of so many bytes: that one has
// been looked at.
type parted struct {
	io.ReadCloser
	left int
	read chan<- struct{}
}

func (b *parted) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.left--
		b.read <- struct{}{}
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left = max(b.left-n, 0)
	}
	return n, err
}

// The results of a continuation are held in memory before anything is known of them: of one
// program no more are read at once than a caller needs who believes that a request was lost.
func TestContinuationsBeingRead(t *testing.T) {
	r := newRig(t)
	s := r.suspended(alice, `one '{"city":"a"}'`, "one")
	var all sync.WaitGroup
	var bodies []*io.PipeWriter
	begin := `{"continuation_token":"` + s.ContinuationToken + `","tool_results":[{"call_id":"`
	read := make(chan struct{}, 2)
	r.intercept = func(_ http.ResponseWriter, q *http.Request) bool {
		q.Body = &parted{ReadCloser: q.Body, left: len(begin), read: read}
		return false
	}
	for range 2 {
		pr, pw := io.Pipe()
		bodies = append(bodies, pw)
		q := r.request("POST", alice, "/exec/programmatic", pr)
		all.Go(func() {
			if res, err := r.server.Client().Do(q); err == nil {
				res.Body.Close()
			}
		})
		if _, err := io.WriteString(pw, begin); err != nil {
			t.Fatal(err)
		}
		<-read
	}
	r.intercept = nil
	if a := r.goOn(alice, s.ContinuationToken, ok("nobody's", 1)); a.status != 409 {
		t.Errorf("a third one beside two that are read: %d %s", a.status, a.body)
	}
	if a := r.goOn(rich, s.ContinuationToken, ok("nobody's", 1)); a.status != 404 {
		t.Errorf("one of somebody else: %d %s", a.status, a.body)
	}
	for _, pw := range bodies {
		pw.CloseWithError(io.ErrClosedPipe)
	}
	all.Wait()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a := r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1))
		if a.status == 200 {
			break
		}
		if a.status != 409 || time.Now().After(deadline) {
			t.Fatalf("after they broke off: %d %s", a.status, a.body)
		}
	}
}

func TestContinuationsThatAreWrong(t *testing.T) {
	r := newRig(t)
	s := r.suspended(alice, `one '{"city":"a"}'`, "one")
	id, token := s.ToolCalls[0].ID, s.ContinuationToken
	for _, c := range []struct {
		name   string
		body   any
		status int
	}{
		{"no results", obj{"continuation_token": token}, 400},
		{"null results", obj{"continuation_token": token, "tool_results": nil}, 400},
		{"empty results", obj{"continuation_token": token, "tool_results": []obj{}}, 400},
		{"no token", obj{"tool_results": []obj{ok(id, 1)}}, 400},
		{"token of another type", obj{"continuation_token": 7, "tool_results": []obj{ok(id, 1)}}, 400},
		{"malformed token", obj{"continuation_token": "../../x", "tool_results": []obj{ok(id, 1)}}, 400},
		{"invented token", obj{"continuation_token": strings.Repeat("A", 21) + "." + strings.Repeat("A", 26), "tool_results": []obj{ok(id, 1)}}, 404},
		{"nearly the token", obj{"continuation_token": token[:len(token)-1] + "x", "tool_results": []obj{ok(id, 1)}}, 404},
		{"unknown call", obj{"continuation_token": token, "tool_results": []obj{ok("call_999", 1)}}, 400},
		{"call twice", obj{"continuation_token": token, "tool_results": []obj{ok(id, 1), ok(id, 1)}}, 400},
		{"no call id", obj{"continuation_token": token, "tool_results": []obj{{"result": 1}}}, 400},
		{"no object", obj{"continuation_token": token, "tool_results": []any{1}}, 400},
		{"is_error of another type", obj{"continuation_token": token, "tool_results": []obj{{"call_id": id, "is_error": "yes"}}}, 400},
		{"too many", obj{"continuation_token": token, "tool_results": slices.Repeat([]obj{ok(id, 1)}, 201)}, 400},
		{"too large", obj{"continuation_token": token, "tool_results": []obj{ok(id, strings.Repeat("x", 5<<20))}}, 413},
		{"code beside it", obj{"code": "echo", "continuation_token": token, "tool_results": []obj{ok("call_7", 1)}}, 400},
	} {
		if a := r.post(alice, programPath, c.body); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, a.status, a.body, c.status)
		}
	}
	for who, status := range map[string]int{mallory: 404, bob: 404, service: 404, "": 401} {
		a := r.goOn(who, token, ok(id, 1))
		if a.status != status {
			t.Errorf("%s continues: %d %s, want %d", who, a.status, a.body, status)
		}
		if status == 404 {
			if absent := r.goOn(who, strings.Repeat("A", 21)+"."+strings.Repeat("A", 26), ok(id, 1)); !bytes.Equal(a.body, absent.body) {
				t.Errorf("%s can tell: %s and %s", who, a.body, absent.body)
			}
		}
	}
	// It waits all the same.
	if end := into[said](t, r.goOn(alice, token, ok(id, 1)), 200); end.Status != "completed" || end.Stdout != "1\n" {
		t.Errorf("%+v", end)
	}
}

func TestPartOfARound(t *testing.T) {
	python(t)
	r := newRig(t)
	s := into[said](t, r.begin(alice, "py", `
import asyncio
async def show(f, c):
    print(c, await f(city=c), flush=True)
await asyncio.gather(show(one, "a"), show(two, "b"))`, []string{"one", "two"}), 200)
	if len(s.ToolCalls) != 2 {
		t.Fatalf("%+v", s)
	}
	slices.SortFunc(s.ToolCalls, func(a, b asked) int { return strings.Compare(a.Name, b.Name) })
	next := into[said](t, r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[1].ID, 2)), 200)
	if next.Status != "tool_call_required" || len(next.ToolCalls) != 1 || next.ToolCalls[0].ID != s.ToolCalls[0].ID {
		t.Fatalf("%+v", next)
	}
	if end := into[said](t, r.goOn(alice, next.ContinuationToken, ok(next.ToolCalls[0].ID, nil)), 200); end.Stdout != "b 2\na None\n" {
		t.Errorf("%+v", end)
	}
}

func TestProgramExpires(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ProgramTTL = 200 * time.Millisecond })
	s := r.suspended(rich, `one '{"city":"a"}'`, "one")
	r.alive(0, 0)
	a := r.goOn(rich, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1))
	if e := into[obj](t, a, 404); e["error"] != "Execution not found or expired" {
		t.Errorf("%v", e)
	}
	if b := r.balance("w-rich"); b.Balance != 999 || b.Held != 0 {
		t.Errorf("it ran and is paid for: %+v", b)
	}
	if res := r.exec(rich, "echo free", obj{"session_id": s.SessionID}); res.Stdout != "free\n" || res.SessionID != s.SessionID {
		t.Errorf("its session: %+v", res)
	}
}

func TestProgramsAreCanceled(t *testing.T) {
	r := newRig(t)
	cancel := func(key, id string) {
		t.Helper()
		into[obj](t, r.post(key, programPath+"/cancel", obj{"request_id": id}), 202)
	}
	named := func(key, id, code string) answer {
		q := r.request("POST", key, programPath, jsonBody(obj{"lang": "bash", "code": code, "tools": defs("one")}))
		q.Header.Set("X-LibreChat-Code-Request-ID", id)
		return r.do(q)
	}
	// Suspended.
	s := into[said](t, named(rich, "r1", `one '{"city":"a"}'`), 200)
	cancel(mallory, "r1")
	cancel(bob, "r1")
	r.alive(1, 1)
	cancel(rich, "r1")
	r.alive(0, 0)
	into[obj](t, r.goOn(rich, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 404)
	// Before it comes.
	cancel(rich, "r2")
	into[obj](t, named(rich, "r2", "echo ran > f"), 503)
	if a := into[said](t, named(rich, "r2", "echo again"), 200); a.Stdout != "again\n" {
		t.Errorf("the name used again: %+v", a)
	}
	// While it runs.
	done := make(chan answer)
	go func() { done <- named(rich, "r3", "sleep 30") }()
	r.alive(1, 0)
	cancel(rich, "r3")
	if a := <-done; a.status != 503 && !strings.Contains(string(a.body), `"error"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.alive(0, 0)
	// A continuation has a name of its own.
	s = into[said](t, named(rich, "r4", `one '{"city":"a"}'; sleep 30`), 200)
	go func() {
		q := r.request("POST", rich, programPath, jsonBody(obj{"continuation_token": s.ContinuationToken, "tool_results": []obj{ok(s.ToolCalls[0].ID, 1)}}))
		q.Header.Set("X-LibreChat-Code-Request-ID", "r5")
		done <- r.do(q)
	}()
	r.alive(1, 0)
	cancel(rich, "r5")
	if a := <-done; a.status != 503 && !strings.Contains(string(a.body), `"error"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.alive(0, 0)
	s = into[said](t, named(rich, "r6", `one '{"city":"a"}'; sleep 30`), 200)
	cancel(rich, "r7")
	q := r.request("POST", rich, programPath, jsonBody(obj{"continuation_token": s.ContinuationToken, "tool_results": []obj{ok(s.ToolCalls[0].ID, 1)}}))
	q.Header.Set("X-LibreChat-Code-Request-ID", "r7")
	into[obj](t, r.do(q), 503)
	r.alive(0, 0)
	// Nonsense.
	for _, body := range []any{obj{}, obj{"request_id": ""}, obj{"request_id": 7}, obj{"request_id": strings.Repeat("x", 129)}, []any{}} {
		into[obj](t, r.post(rich, programPath+"/cancel", body), 400)
	}
	if b := r.balance("w-rich"); b.Held != 0 {
		t.Errorf("%+v", b)
	}
}

// How long a program ran is told also when it was canceled after its answer began.
func TestCanceledLate(t *testing.T) {
	r := newRig(t, func(o *Options) { o.KeepAlive = 20 * time.Millisecond })
	code, runs := endless(t)
	q := r.request("POST", rich, programPath, jsonBody(obj{"lang": "bash", "code": code, "tools": defs("one")}))
	q.Header.Set("X-LibreChat-Code-Request-ID", "late")
	res, err := r.server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() // its status has come, so it is late
	waitFor(t, runs)
	r.clock.advance(4 * time.Second)
	into[obj](t, r.post(rich, programPath+"/cancel", obj{"request_id": "late"}), 202)
	var late struct {
		Status   string `json:"status"`
		WallTime int64  `json:"wall_time"`
	}
	if err := json.NewDecoder(res.Body).Decode(&late); err != nil || late.Status != "error" || late.WallTime < 1 {
		t.Errorf("%+v, %v", late, err)
	}
}

// Programs keep connections alive like runs do, and what fails after that is a reply.
func TestProgramsKeepTheConnectionAlive(t *testing.T) {
	r := newRig(t, func(o *Options) { o.KeepAlive = 20 * time.Millisecond })
	first := r.begin(alice, "bash", `sleep 0.3; one '{"city":"a"}'; sleep 0.3`, []string{"one"})
	s := into[said](t, first, 200)
	if !bytes.HasPrefix(first.body, []byte("   ")) || s.Status != "tool_call_required" {
		t.Fatalf("%q", first.body)
	}
	last := r.goOn(alice, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1))
	if s = into[said](t, last, 200); !bytes.HasPrefix(last.body, []byte("   ")) || s.Status != "completed" || s.Stdout != "1\n" {
		t.Errorf("%q", last.body)
	}
	again := r.suspended(alice, `one '{"city":"a"}'; one '{"city":"b"}'; sleep 0.3`, "one")
	replied := r.goOn(alice, again.ContinuationToken, ok(again.ToolCalls[0].ID, 1))
	if b := r.goOn(alice, again.ContinuationToken, ok(again.ToolCalls[0].ID, 1)); !bytes.Equal(bytes.TrimSpace(replied.body), bytes.TrimSpace(b.body)) {
		t.Errorf("%q and then %q", replied.body, b.body)
	}

	q := r.request("POST", alice, programPath, jsonBody(obj{"lang": "bash", "code": "sleep 30", "tools": defs("one")}))
	q.Header.Set("X-LibreChat-Code-Request-ID", "late")
	res, err := r.server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() // its status has come, so white space is under way
	into[obj](t, r.post(alice, programPath+"/cancel", obj{"request_id": "late"}), 202)
	var late said
	if err := json.NewDecoder(res.Body).Decode(&late); err != nil || late.Status != "error" || late.Error != "Execution failed or timed out" || !strings.Contains(late.Stderr, "[sandbox] ") {
		t.Errorf("%+v, %v", late, err)
	}
}

func jsonBody(v any) io.Reader {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(b)
}

func TestCallersOfProgramsGoAway(t *testing.T) {
	r := newRig(t)
	leave := func(body obj) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		q := r.request("POST", rich, programPath, jsonBody(body)).WithContext(ctx)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if res, err := r.server.Client().Do(q); err == nil {
				res.Body.Close()
			}
		}()
		r.alive(1, 0)
		cancel()
		<-gone
		r.alive(0, 0)
	}
	leave(obj{"lang": "bash", "code": "sleep 30", "tools": defs("one")})
	s := r.suspended(rich, `one '{"city":"a"}'; sleep 30`, "one")
	leave(obj{"continuation_token": s.ContinuationToken, "tool_results": []obj{ok(s.ToolCalls[0].ID, 1)}})
	into[obj](t, r.goOn(rich, s.ContinuationToken, ok(s.ToolCalls[0].ID, 1)), 404)
	if b := r.balance("w-rich"); b.Held != 0 || b.Balance > 999 {
		t.Errorf("one program ran, and the other perhaps: %+v", b)
	}
}
