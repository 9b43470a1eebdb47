package exec

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
)

// counted says how much of a body was read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// allocated lets the handler answer and says how many bytes it allocated, and read.
func (r *rig) allocated(t *testing.T, path string, body []byte) (w *httptest.ResponseRecorder, allocated uint64, read int) {
	t.Helper()
	in := &counted{Reader: bytes.NewReader(body)}
	q := httptest.NewRequest(http.MethodPost, path, in)
	q.Header.Set("X-API-Key", alice)
	w = httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.mux.ServeHTTP(w, q)
	runtime.ReadMemStats(&after)
	return w, after.TotalAlloc - before.TotalAlloc, in.n
}

const heavy = 4 << 20

// many is a text of n numbered pieces.
func many(piece string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, piece, i)
	}
	return b.String()
}

// However a body is made, its bytes cost a few times as many bytes of memory, whatever
// becomes of it.
func TestBodiesAreNotInflated(t *testing.T) {
	if testing.Short() {
		t.Skip("one large body after the other")
	}
	r := newRigWith(t, func(r *rig) { r.bare = true }, func(o *Options) { o.BodyBytes = 2 * heavy })
	const begin = `{"lang":"py","code":"x",`
	for name, c := range map[string]struct {
		body string
		stop bool // nothing behind the element that is too many is read
	}{
		"files":            {begin + `"files":[` + strings.Repeat("1,", heavy/2) + `1]}`, true},
		"files objects":    {begin + `"files":[` + strings.Repeat("{},", heavy/3) + `{}]}`, true},
		"args":             {begin + `"args":[` + strings.Repeat(`"",`, heavy/3) + `""]}`, true},
		"args nested":      {begin + `"args":[[` + strings.Repeat("1,", heavy/2) + `1]]}`, false},
		"escaped name":     {begin + `"\u0066iles":[` + strings.Repeat("1,", heavy/2) + `1]}`, false},
		"tools":            {begin + `"tools":[` + strings.Repeat("{},", heavy/3) + `{}]}`, true},
		"members":          {begin + many(`"%x":1,`, heavy/10) + `"y":1}`, false},
		"escaped members":  {begin + strings.Repeat(`"\u0061":1,`, heavy/11) + `"y":1}`, false},
		"long names":       {begin + many(`"`+strings.Repeat("n", 60000)+`%d":1,`, heavy/60000) + `"y":1}`, false},
		"same member":      {begin + strings.Repeat(`"code":"xxxxxxxxxxxxxxxx",`, heavy/26) + `"y":1}`, false},
		"same large":       {`{"lang":"py",` + strings.Repeat(`"code":"`+strings.Repeat("x", heavy/8)+`",`, 7) + `"y":1}`, false},
		"ref members":      {begin + `"files":[{` + many(`"%x":1,`, heavy/10) + `"y":1}]}`, false},
		"ref origin":       {begin + `"files":[{"modified_from":{` + many(`"%x":1,`, heavy/10) + `"y":1}}]}`, false},
		"code":             {`{"lang":"py","code":"` + strings.Repeat("<", heavy) + `"}`, false},
		"code quotes":      {`{"lang":"py","code":"` + strings.Repeat(`\"`, heavy/2) + `"}`, false},
		"code escapes":     {`{"lang":"py","code":"` + strings.Repeat(`\u0001`, heavy/6) + `"}`, false},
		"code pairs":       {`{"lang":"py","code":"` + strings.Repeat(`\ud83d\ude00`, heavy/12) + `"}`, false},
		"code halves":      {`{"lang":"py","code":"` + strings.Repeat(`\ud83d`, heavy/6) + `"}`, false},
		"code deletes":     {`{"lang":"py","code":"` + strings.Repeat("\x7f", heavy) + `"}`, false},
		"code letters":     {`{"lang":"py","code":"` + strings.Repeat(`ā`, heavy/2) + `"}`, false},
		"depth":            {begin + `"y":` + strings.Repeat("[", heavy) + `}`, false},
		"depths":           {begin + `"y":[` + strings.Repeat(strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+",", heavy/18001) + `0]}`, false},
		"digits":           {begin + `"timeout":` + strings.Repeat("9", heavy) + `}`, false},
		"version":          {begin + `"files":[{"version":` + strings.Repeat("9", heavy) + `}]}`, false},
		"argument":         {begin + `"args":` + strings.Repeat("9", heavy) + `}`, false},
		"white space":      {begin + strings.Repeat(" ", heavy) + `"y":1}`, false},
		"properties":       {begin + `"tools":[{"name":"a","parameters":{"properties":{` + many(`"%x":{},`, heavy/11) + `"y":{}}}}]}`, false},
		"required":         {begin + `"tools":[{"name":"a","parameters":{"properties":{},"required":[` + many(`"%x",`, heavy/9) + `"y"]}}]}`, false},
		"types":            {begin + `"tools":[{"name":"a","parameters":{"properties":{"p":{"type":[` + strings.Repeat("1,", heavy/2) + `1]}}}}]}`, false},
		"tool description": {begin + `"tools":[{"name":"a","description":"` + strings.Repeat("<é", heavy/3) + `"}]}`, false},
		"tool members":     {begin + `"tools":[{"name":"a",` + many(`"%x":1,`, heavy/10) + `"y":1}]}`, false},
	} {
		for _, path := range []string{"/exec", "/exec/programmatic"} {
			w, n, read := r.allocated(t, path, []byte(c.body))
			if times := float64(n) / float64(len(c.body)); times > bodies.Factor {
				t.Errorf("%s, %s: %.1f bytes for each byte of the body, %d %.80s", path, name, times, w.Code, w.Body)
			}
			if c.stop && (w.Code != http.StatusBadRequest || read > heavy/8) {
				t.Errorf("%s, %s: %d bytes were read, %d %.80s", path, name, read, w.Code, w.Body)
			}
			if w.Code < 400 {
				t.Errorf("%s, %s: %d %.80s", path, name, w.Code, w.Body)
			}
		}
	}
	if n := r.bodies.Used(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
}

// Results of tools are cheaper, since they are decoded one by one.
func TestResultsAreNotInflated(t *testing.T) {
	if testing.Short() {
		t.Skip("one large body after the other")
	}
	r := newRig(t)
	token := r.suspended(alice, `a '{"city":"x"}'`, "a").ContinuationToken
	begin := `{"continuation_token":"` + token + `","tool_results":[`
	for name, result := range map[string]string{
		"values":  `{"call_id":"c%d","result":"` + strings.Repeat("x", heavy/2) + `"},`,
		"numbers": `{"call_id":"c%d","result":[` + strings.Repeat("1,", heavy/4) + `1]},`,
		"members": `{"call_id":"c%d",` + many(`"%x":1,`, heavy/20) + `"result":1},`,
		"errors":  `{"call_id":"c%d","is_error":true,"error_message":"` + strings.Repeat("y", 200<<10) + `"},`,
	} {
		body := begin + strings.TrimSuffix(many(result, 8), ",") + `]}`
		w, n, _ := r.allocated(t, "/exec/programmatic", []byte(body))
		if times := float64(n) / float64(len(body)); times > bodies.FactorParts {
			t.Errorf("%s: %.1f bytes for each byte of the body, %d %.80s", name, times, w.Code, w.Body)
		}
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %.80s", name, w.Code, w.Body)
		}
	}
	if n := r.bodies.Used(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
	into[said](t, r.goOn(alice, token, ok("call_001", 1)), 200)
}

// Bodies that come while others have the memory are refused, small ones are not, and what
// was refused holds nothing.
func TestBodiesAtOnce(t *testing.T) {
	r := newRigWith(t, func(r *rig) { r.bare = true }, func(o *Options) { o.BodyMemoryBytes = 1 })
	large := `{"lang":"py","code":"` + strings.Repeat("x", heavy) + `"}`
	for _, path := range []string{"/exec", "/exec/programmatic"} {
		// Most of a tenant's part, as a body that does not go on would have it.
		held := r.bodies.Open("acme")
		if err := held.Read(15 << 20); err != nil {
			t.Fatal(err)
		}
		w, _, read := r.allocated(t, path, []byte(large))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || read == len(large) {
			t.Errorf("%s: %d %s, %d bytes were read", path, w.Code, w.Body, read)
		}
		if w, _, _ := r.allocated(t, path, []byte(`{"lang":"py","code":"x"}`)); w.Code == http.StatusTooManyRequests {
			t.Errorf("%s: a small body: %d %s", path, w.Code, w.Body)
		}
		held.Close()
		if w, _, _ := r.allocated(t, path, []byte(large)); w.Code == http.StatusTooManyRequests {
			t.Errorf("%s: beside nothing: %d %s", path, w.Code, w.Body)
		}
		if n := r.bodies.Used(); n != 0 {
			t.Errorf("%s: %d bytes are held by nobody", path, n)
		}
	}
}
