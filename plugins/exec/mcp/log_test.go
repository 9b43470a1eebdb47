package mcp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// The log says what was answered, or that nobody was there to answer.
func TestStatusInTheLog(t *testing.T) {
	s, err := New(Options{Handler: nothing, BodyTime: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log strings.Builder
	s.log = hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &mu})
	written := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	m := &alone{mux: http.NewServeMux()}
	s.Mount(m)
	server := httptest.NewServer(m.mux)
	defer server.Close()
	defer func() {
		if err := m.closers[0](t.Context()); err != nil {
			t.Error(err)
		}
	}()
	begin := func(request string) net.Conn {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, request)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	logged := func(what, want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !strings.Contains(written(), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %q is not in the log:\n%s", what, want, written())
			}
		}
	}
	const head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	c := begin(head)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 408 || !strings.Contains(string(b), `"body_timeout"`) {
		t.Errorf("a body that does not come: %d %s, %v", res.StatusCode, b, err)
	}
	logged("a body that does not come", "method=POST route=/mcp status=408")
	_ = c.Close()

	_ = begin(head).Close()
	logged("a caller that hangs up", "method=POST route=/mcp status=499")
}
