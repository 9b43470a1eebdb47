package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves on a free port of this machine until the test ends.
func start(t *testing.T) (*Server, string, *http.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(l, hclog.NewNullLogger())
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = s.Shutdown(context.Background()) // a second one is harmless
	})
	return s, "http://" + l.Addr().String(), client
}

type reply struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, c *http.Client, method, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func TestAnswers(t *testing.T) {
	s, url, client := start(t)
	s.Handle("GET /thing/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "thing "+r.PathValue("id"))
	}))

	r := do(t, client, "GET", url+"/thing/1")
	if r.status != 503 || r.header.Get("Retry-After") != "1" || r.body != `{"error":"the server is starting","message":"the server is starting","status":503,"code":"starting","request_id":"`+r.header.Get("X-Request-Id")+`"}`+"\n" {
		t.Errorf("before Ready: %+v", r)
	}
	s.Ready()
	if r := do(t, client, "GET", url+"/thing/a%2Fb"); r.status != 200 || r.body != "thing a/b" {
		t.Errorf("a route: %+v", r)
	}
	r = do(t, client, "GET", url+"/other")
	if r.status != 404 || r.header.Get("Content-Type") != "application/json" || r.body != `{"error":"there is nothing at this path","message":"there is nothing at this path","status":404,"code":"not_found","request_id":"`+r.header.Get("X-Request-Id")+`"}`+"\n" || len(r.header.Get("X-Request-Id")) < 20 {
		t.Errorf("an unknown path: %+v", r)
	}
}

// 405 is for methods that another path takes, and its Allow is true of this one.
func TestMethods(t *testing.T) {
	s, url, client := start(t)
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	s.Handle("GET /thing/{id}", ok)
	s.Handle("POST /other", ok)
	// As entries do that refuse a method behind their own admission.
	s.Handle("DELETE /other", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}))
	s.Ready()
	for _, tt := range []struct {
		method, path string
		status       int
		allow, code  string
	}{
		{"GET", "/thing/1", 200, "", ""},
		{"HEAD", "/thing/1", 200, "", ""},
		{"POST", "/thing/1", 405, "GET, HEAD", "method_not_allowed"},
		{"DELETE", "/other", 405, "POST", ""},
		{"BREW", "/other", 501, "", "not_implemented"},
		{"OPTIONS", "/other", 501, "", "not_implemented"},
		{"BREW", "/nothing", 404, "", "not_found"},
		{"POST", "/nothing", 404, "", "not_found"},
		{"GET", "/thing", 404, "", "not_found"},
	} {
		r := do(t, client, tt.method, url+tt.path)
		if r.status != tt.status || r.header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", tt.method, tt.path, r.status, r.header.Get("Allow"), tt.status, tt.allow)
		}
		if tt.code == "" {
			continue
		}
		var body struct {
			Error, Message, Code string
			Status               int
		}
		if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Code != tt.code || body.Status != tt.status || body.Error != body.Message || !strings.Contains(body.Error, " ") {
			t.Errorf("%s %s: %s, %v", tt.method, tt.path, r.body, err)
		}
	}
}

// Whatever is answered has an id and one line of log, in which nothing of a caller is
// without bounds.
func TestEverythingHasAnIDAndALine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log strings.Builder
	s := Start(l, hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &mu, Level: hclog.Debug}))
	taken := func() string {
		mu.Lock()
		defer mu.Unlock()
		defer log.Reset()
		return log.String()
	}
	defer func() { _ = s.Shutdown(context.Background()) }()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	s.Handle("POST /v1/exec", ok)
	s.Handle("GET /v1/files/{id}", ok)
	s.HandleOwn("GET /metrics", "/metrics", ok)
	s.Ready()
	for request, want := range map[string]string{
		"POST //v1//exec":  `route="" status=307 ms=\d+ bytes=0`,
		"GET /v1/files//x": `route="" status=307 ms=\d+ bytes=`,
		"OPTIONS *":        `route="" status=200 ms=\d+ bytes=0`,
		"GET *":            `route="" status=404 ms=\d+ bytes=`,
		"GET /metrics":     `route=/metrics status=200 ms=\d+ bytes=2`,
		"GET /nothing":     `route="" status=404 ms=\d+ bytes=`,
		strings.Repeat("A", 60_000) + " /v1/exec": `method="A{32}…" route="" status=501 ms=\d+ bytes=`,
	} {
		_ = taken()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: id-of-this-one\r\n\r\n", request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(answer), "\r\nX-Request-Id: id-of-this-one\r\n") || len(answer) > 2000 {
			t.Errorf("%.40s: %.500q, %v", request, answer, err)
		}
		_ = c.Close()
		if got := taken(); strings.Count(got, "request: ") != 1 || !regexp.MustCompile(want).MatchString(got) || !strings.Contains(got, "request=id-of-this-one") || len(got) > 300 {
			t.Errorf("%.40s: log %.500q, want %q", request, got, want)
		}
	}
}

// held is a route that says when it has begun and waits for leave to end.
func held(s *Server) (begun chan struct{}, leave chan struct{}) {
	begun, leave = make(chan struct{}), make(chan struct{})
	s.Handle("GET /held", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		select {
		case <-leave:
			fmt.Fprint(w, "finished")
		case <-r.Context().Done():
			fmt.Fprint(w, "cancelled")
		}
	}))
	return begun, leave
}

func TestShutdownDrains(t *testing.T) {
	s, url, client := start(t)
	begun, leave := held(s)
	s.Ready()
	got := make(chan reply, 1)
	go func() { got <- do(t, client, "GET", url+"/held") }()
	<-begun
	if n := s.InFlight(); n != 1 {
		t.Errorf("InFlight = %d, want 1", n)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	<-s.Done() // the listener is closed while the request is still held
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Second); err == nil {
		t.Error("a connection was accepted during shutdown")
	}
	close(leave)
	if r := <-got; r.body != "finished" {
		t.Errorf("the request in flight got %+v", r)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}

func TestShutdownCutsWhenTimeIsUp(t *testing.T) {
	s, url, client := start(t)
	begun, _ := held(s)
	s.Ready()
	got := make(chan reply, 1)
	go func() { got <- do(t, client, "GET", url+"/held") }()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("Shutdown = %v, want an error that says requests were cancelled", err)
	}
	if r := <-got; r.body != "cancelled" {
		t.Errorf("the request in flight got %+v, want its own answer to the cancellation", r)
	}
}

func TestListenerFailureEndsServing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(l, hclog.NewNullLogger())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Shutdown(context.Background()); err == nil {
		t.Error("Shutdown does not report that the listener failed")
	}
}
