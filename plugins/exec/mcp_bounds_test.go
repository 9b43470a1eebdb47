package exec

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Pages of other origins, and names that are not this server's, are shut out.
func TestMCPOrigins(t *testing.T) {
	r := newMCP(t)
	named := newMCP(t, func(o *mcp.Options) { o.Hosts = []string{"code.example"} })
	for _, tt := range []struct {
		rig          *rig
		method       string
		host, origin string
		site         string
		want         int
	}{
		{r, "POST", "", "", "", 200},
		{r, "POST", "localhost:1", "", "", 200},
		{r, "POST", "LOCALHOST.", "", "", 200},
		{r, "POST", "[::1]:80", "", "", 200},
		{r, "POST", "evil.example", "", "", 403},
		{r, "POST", "127.0.0.1.evil.example", "", "", 403},
		{r, "POST", "evil.example", "http://evil.example", "", 403},
		{r, "POST", "", "http://evil.example", "", 403},
		{r, "POST", "", "null", "", 403},
		{r, "POST", "", "", "cross-site", 403},
		{r, "GET", "", "http://evil.example", "", 403},
		{r, "GET", "", "", "same-site", 403},
		{r, "DELETE", "evil.example", "", "", 403},
		{named, "POST", "code.example", "", "", 200},
		{named, "POST", "code.example:8443", "http://code.example:8443", "", 200},
		{named, "POST", "", "", "", 403},
		{named, "POST", "localhost", "", "", 403},
	} {
		for _, key := range []string{alice, ""} { // before anybody is admitted
			q := tt.rig.request(tt.method, key, mcp.Path, strings.NewReader(initialize))
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "application/json, text/event-stream")
			if tt.host != "" {
				q.Host = tt.host
			}
			if tt.origin != "" {
				q.Header.Set("Origin", tt.origin)
			}
			if tt.site != "" {
				q.Header.Set("Sec-Fetch-Site", tt.site)
			}
			want := tt.want
			if key == "" && want == 200 {
				want = 401
			}
			if a := tt.rig.do(q); a.status != want {
				t.Errorf("%s as %q for %q from %q %q: %d %s, want %d", tt.method, key, tt.host, tt.origin, tt.site, a.status, a.body, want)
			}
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

func TestMCPBounds(t *testing.T) {
	r := newMCP(t, func(o *mcp.Options) { o.OutputBytes, o.BodyBytes = 1000, 20_000 })
	s := r.connect(alice, "2025-11-25")
	run, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": `echo begin; i=0; while [ $i -lt 2000 ]; do printf é; i=$((i+1)); done; echo end; i=0; while [ $i -lt 250 ]; do echo $i >f$i; i=$((i+1)); done`})
	if fault != "" || !run.Cut || len(run.Stdout) > 1100 || !strings.HasPrefix(run.Stdout, "begin\n") || !strings.HasSuffix(run.Stdout, "end\n") || strings.Contains(run.Stdout, "\ufffd") || !strings.Contains(run.Stdout, " bytes left out]") {
		t.Errorf("%d bytes, cut %v: %s", len(run.Stdout), run.Cut, fault)
	}
	if len(run.Files) > 200 {
		t.Errorf("%d files", len(run.Files))
	}
	l, _ := tool[list](t, s, "list_files", obj{"session_id": run.SessionID})
	rest, _ := tool[list](t, s, "list_files", obj{"session_id": run.SessionID, "skip": 200})
	none, _ := tool[list](t, s, "list_files", obj{"session_id": run.SessionID, "skip": 1 << 40})
	if l.Total != 250 || len(l.Files) != 200 || len(rest.Files) != 50 || len(none.Files) != 0 {
		t.Errorf("%d of %d, then %d, then %d", len(l.Files), l.Total, len(rest.Files), len(none.Files))
	}

	// A file comes piece by piece, characters whole, and is what it was.
	text := strings.Repeat("añ€😀", 300)
	up, fault := tool[put](t, s, "upload_file", obj{"name": "t.txt", "text": text})
	if fault != "" {
		t.Fatal(fault)
	}
	var got strings.Builder
	for at := int64(0); ; {
		x, fault := tool[contents](t, s, "read_file", obj{"session_id": up.SessionID, "file": "t.txt", "offset": at, "length": 100_000})
		if fault != "" || len(x.Text) == 0 || len(x.Text) > 1000 || x.Base64 != "" || x.Size != int64(len(text)) {
			t.Fatalf("at %d: %+v, %s", at, x, fault)
		}
		got.WriteString(x.Text)
		if at = x.Next; at == 0 {
			break
		}
	}
	if got.String() != text {
		t.Error("the pieces are not the file")
	}
	binary := []byte{0xff, 0xfe, 0, 1}
	up, _ = tool[put](t, s, "upload_file", obj{"name": "x.bin", "base64": base64.StdEncoding.EncodeToString(binary)})
	if x, fault := tool[contents](t, s, "read_file", obj{"session_id": up.SessionID, "file": "x.bin"}); x.Base64 != base64.StdEncoding.EncodeToString(binary) || x.Text != "" {
		t.Errorf("%+v, %s", x, fault)
	}
	up, _ = tool[put](t, s, "upload_file", obj{"name": "empty", "text": ""})
	if x, fault := tool[contents](t, s, "read_file", obj{"session_id": up.SessionID, "file": "empty"}); fault != "" || x.Size != 0 || x.Next != 0 {
		t.Errorf("%+v, %s", x, fault)
	}
	up, _ = tool[put](t, s, "upload_file", obj{"name": "p.png", "base64": base64.StdEncoding.EncodeToString(binary)})
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_file", Arguments: obj{"session_id": up.SessionID, "file": "p.png"}})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if img, ok := res.Content[0].(*sdk.ImageContent); !ok || !bytes.Equal(img.Data, binary) || img.MIMEType != "image/png" {
		t.Errorf("%+v", res.Content[0])
	}

	if a := r.do(r.posted("POST", alice, "", strings.Repeat(" ", 20_001))); a.status != 413 {
		t.Errorf("a large body: %d %s", a.status, a.body)
	}
}

// posted is a request of the protocol, in a session where there is one.
func (r *rig) posted(method, key, session, body string) *http.Request {
	q := r.request(method, key, mcp.Path, strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		q.Header.Set("Mcp-Session-Id", session)
	}
	return q
}

// An id that would come back as another one is refused, in the words of JSON-RPC.
func TestMCPIDs(t *testing.T) {
	r := newMCP(t)
	s := r.greet(alice)
	const ping = `{"jsonrpc":"2.0","id":%s,"method":"ping"}`
	for id, status := range map[string]int{"99999999999999999999999": 400, "1.5": 400, "9007199254740991": 200, "-1": 200, `"x"`: 200} {
		a := r.do(r.posted("POST", alice, s, "\n "+fmt.Sprintf(ping, id)))
		want := `"id":` + id
		if status == 400 {
			want += `,"error":{"code":-32600,`
		}
		if a.status != status || !strings.Contains(string(a.body), want) {
			t.Errorf("id %s: %d %s", id, a.status, a.body)
		}
	}
	if a := r.do(r.posted("POST", alice, s, "["+fmt.Sprintf(ping, "2.5")+"]")); a.status != 400 || !strings.Contains(string(a.body), `"id":null,"error":{"code":-32600,`) {
		t.Errorf("in a batch: %d %s", a.status, a.body)
	}
}

// What is not exactly one message, or one whose id has another member beside it that looks
// like it, is no message whose first half is answered.
func TestMCPMessagesThatAreNone(t *testing.T) {
	r := newMCP(t)
	s := r.greet(alice)
	const ping = `{"jsonrpc":"2.0","id":3,"method":"ping"}`
	for body, code := range map[string]string{
		ping + ping: "-32700", ping + "x": "-32700", ping[:20]: "-32700", "": "-32700", "\ufeff" + ping: "-32700",
		`{"jsonrpc":"2.0","id":1.5,"ID":5,"method":"ping"}`:        "-32600",
		`[{"jsonrpc":"2.0","id":1.5,"ID":5,"method":"ping"},5]`:    "-32600",
		`{"jsonrpc":"2.0","\u0069d":1.5,"Id":"x","method":"ping"}`: "-32600",
	} {
		if a := r.do(r.posted("POST", alice, s, body)); a.status != 400 || !strings.Contains(string(a.body), `"code":`+code) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := r.do(r.posted("POST", alice, s, `{"jsonrpc":"2.0","ID":1.5,"id":3,"method":"ping"}`)); a.status != 200 {
		t.Errorf("an id beside another member: %d %s", a.status, a.body)
	}
}

const listTools = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`

// greet begins a session as a client does that never ends one.
func (r *rig) greet(key string) (id string) {
	r.t.Helper()
	a := r.do(r.posted("POST", key, "", initialize))
	if id = a.header.Get("Mcp-Session-Id"); a.status != 200 || id == "" {
		r.t.Fatalf("a session of %s: %d %s", key, a.status, a.body)
	}
	return id
}

// Whoever has as many sessions as they may begins a further one in the place of the one
// that they have not used for longest, and of nobody else's.
func TestMCPSessionsMakeRoom(t *testing.T) {
	r := newMCP(t, func(o *mcp.Options) { o.Sessions, o.TenantSessions, o.AllSessions = 2, 4, 4 })
	status := func(key, id string) int { return r.do(r.posted("POST", key, id, listTools)).status }
	theirs := r.greet(mallory)
	for range 20 {
		r.greet(alice)
	}
	first, second := r.greet(alice), r.greet(alice)
	if got := status(alice, first); got != 200 {
		t.Fatalf("the older session: %d", got)
	}
	third := r.greet(alice)
	for id, want := range map[string]int{first: 200, second: 404, third: 200} {
		if got := status(alice, id); got != want {
			t.Errorf("session %q of %q, %q, %q: %d, want %d", id, first, second, third, got, want)
		}
	}
	// Where all sessions of everybody are taken, it is still the caller's own that ends.
	fourth := r.greet(service)
	if a := r.do(r.posted("POST", bob, "", initialize)); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("without a session that could end: %d %s", a.status, a.body)
	}
	fifth := r.greet(service)
	for id, want := range map[string]int{fourth: 404, fifth: 200} {
		if got := status(service, id); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	for key, id := range map[string]string{mallory: theirs, alice: third} {
		if got := status(key, id); got != 200 {
			t.Errorf("%s's session: %d", key, got)
		}
	}
}

// A session that is used does not end for another one.
func TestMCPSessionsInUse(t *testing.T) {
	r := newMCP(t, func(o *mcp.Options) { o.Sessions = 1 })
	id := r.greet(alice)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := r.server.Client().Do(r.posted("GET", alice, id, "").WithContext(ctx))
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%+v, %v", res, err)
	}
	defer res.Body.Close()
	if a := r.do(r.posted("POST", alice, "", initialize)); a.status != 429 || a.header.Get("Retry-After") == "" || into[obj](t, a, 429)["retry_after_seconds"] != 1.0 {
		t.Errorf("beside one that is listened to: %d %s", a.status, a.body)
	}
	if a := r.do(r.posted("POST", alice, id, listTools)); a.status != 200 {
		t.Errorf("that one: %d %s", a.status, a.body)
	}
	cancel()
	r.await("there is room", func() bool { return r.do(r.posted("POST", alice, "", initialize)).status == 200 })
	if a := r.do(r.posted("POST", alice, id, listTools)); a.status != 404 || !strings.Contains(string(a.body), "session not found") {
		t.Errorf("the one that ended: %d %s", a.status, a.body)
	}
	second := r.greet(alice)
	if a := r.do(r.posted("DELETE", alice, second, "")); a.status != 204 {
		t.Errorf("ending it: %d %s", a.status, a.body)
	}
	r.greet(alice)
}

// A call beyond the places of its caller is refused as every refused tool is: by a
// result that a model reads.
func TestMCPCallsAtOnce(t *testing.T) {
	r := newMCP(t, func(o *mcp.Options) { o.Requests = 1 })
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"bash","code":"sleep 0.5"}}}`
	const old = "2025-03-26" // the last one with several messages in one request
	a := r.do(r.posted("POST", alice, "", strings.Replace(initialize, "2025-06-18", old, 1)))
	q := r.posted("POST", alice, a.header.Get("Mcp-Session-Id"), "["+fmt.Sprintf(call, 2)+","+fmt.Sprintf(call, 3)+"]")
	q.Header.Set("Mcp-Protocol-Version", old)
	a = r.do(q)
	var ran, refused int
	for _, m := range regexp.MustCompile(`(?m)^data: (.+)$`).FindAllSubmatch(a.body, -1) {
		var x struct {
			Result *struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal(m[1], &x); err != nil || x.Result == nil || len(x.Result.Content) != 1 {
			t.Fatalf("%s, %v", m[1], err)
		}
		switch {
		case !x.Result.IsError:
			ran++
		case strings.HasPrefix(x.Result.Content[0].Text, "rate_limited: "):
			refused++
		}
	}
	if a.status != 200 || ran != 1 || refused != 1 {
		t.Errorf("%d ran, %d were refused: %d %s", ran, refused, a.status, a.body)
	}
}

// However many users an organisation has, they leave half of everything to others.
func TestMCPOrganisationsShare(t *testing.T) {
	r := newMCP(t, func(o *mcp.Options) { o.Sessions, o.AllSessions, o.Requests, o.AllRequests = 1, 2, 1, 2 })
	status := func(key string) int { return r.do(r.posted("POST", key, "", initialize)).status }
	id := r.greet(alice)
	if got := status(bob); got != 429 {
		t.Errorf("a second session of an organisation that may have one: %d", got)
	}
	theirs := r.greet(mallory)

	// A request that is sent, and a stream that is listened to, for as long as they last.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen := func(key, id string) int {
		t.Helper()
		res, err := r.server.Client().Do(r.posted("GET", key, id, "").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.StatusCode
	}
	if a, b, m := listen(alice, id), listen(bob, ""), listen(mallory, theirs); a != 200 || b != 429 || m != 200 {
		t.Errorf("streams: %d, of the same organisation %d, of another one %d", a, b, m)
	}
	body, more := io.Pipe()
	q := r.posted("POST", alice, id, "").WithContext(ctx)
	q.Body, q.ContentLength = body, -1
	answered := make(chan int, 1)
	go func() {
		res, err := r.server.Client().Do(q)
		if err != nil {
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	if _, err := io.WriteString(more, "  "); err != nil {
		t.Fatal(err)
	}
	alone := func(key string) int { // in no session
		q := r.posted("POST", key, "", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
		q.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		return r.do(q).status
	}
	r.await("it counts", func() bool { return alone(bob) == 429 })
	if a := r.do(r.posted("POST", mallory, theirs, listTools)); a.status != 200 {
		t.Errorf("beside a request of another organisation: %d %s", a.status, a.body)
	}
	if _, err := io.WriteString(more, listTools); err != nil || more.Close() != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != 200 {
		t.Errorf("the request: %d", got)
	}
	r.await("the place is free again", func() bool { return alone(bob) != 429 })
}
