package linger

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refusing serves answers of 403 that nothing of a request is read for, and tells how long
// each lingered.
func refusing(t *testing.T, c *Closer) (addr string, took chan time.Duration) {
	t.Helper()
	took = make(chan time.Duration, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Hurry(w)
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no")
		start := time.Now()
		c.End(w, r)
		took <- time.Since(start)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), took
}

func dial(t *testing.T, addr, head string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = io.WriteString(c, head)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func answered(t *testing.T, c net.Conn) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusForbidden || string(b) != "no" {
		t.Errorf("%d %q, %v", res.StatusCode, b, err)
	}
}

const size = 24 << 20

// A client that sends all of its request before it reads gets its answer, however it
// means to go on with the connection.
func TestAnswerOutlivesTheRequest(t *testing.T) {
	addr, _ := refusing(t, New())
	for name, head := range map[string]string{
		"close":   fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n", size),
		"keep":    fmt.Sprintf("Content-Length: %d\r\n\r\n", size),
		"chunked": "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		for range 5 {
			c := dial(t, addr, "POST / HTTP/1.1\r\nHost: x\r\n"+head)
			piece := make([]byte, 1<<20)
			for range size / len(piece) {
				if name == "chunked" {
					_, _ = fmt.Fprintf(c, "%x\r\n", len(piece))
				}
				_, err := c.Write(piece)
				if name == "chunked" {
					_, _ = io.WriteString(c, "\r\n")
				}
				if err != nil {
					t.Fatalf("%s: the connection was closed while it was written to: %v", name, err)
				}
			}
			if name == "chunked" {
				_, _ = io.WriteString(c, "0\r\n\r\n")
			}
			answered(t, c)
		}
	}
}

// endless is a Closer whose times are longer than any test: what ends does so otherwise.
func endless() *Closer {
	c := New()
	c.time, c.silence = time.Hour, time.Hour
	return c
}

// Small bodies cost nobody a connection.
func TestSmallBodiesKeepTheConnection(t *testing.T) {
	addr, took := refusing(t, endless())
	c := dial(t, addr, "")
	for range 3 {
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nsmall"); err != nil {
			t.Fatal(err)
		}
		answered(t, c)
		<-took
	}
}

func TestBounds(t *testing.T) {
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
	begin := func(change func(*Closer)) (net.Conn, chan time.Duration) {
		c := endless()
		change(c)
		addr, took := refusing(t, c)
		return dial(t, addr, head), took
	}
	t.Run("silence", func(t *testing.T) {
		c, took := begin(func(c *Closer) { c.silence = 50 * time.Millisecond })
		answered(t, c)
		if d := <-took; d < 50*time.Millisecond {
			t.Errorf("lingered for %v", d)
		}
	})
	t.Run("time", func(t *testing.T) {
		c, took := begin(func(c *Closer) { c.time = 300 * time.Millisecond })
		for {
			select {
			case d := <-took:
				if d < 250*time.Millisecond {
					t.Errorf("lingered for %v", d)
				}
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = c.Write([]byte("x")) // never silent
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		c, took := begin(func(c *Closer) { c.bytes = 1 << 20 })
		_, _ = c.Write(make([]byte, 2<<20)) // the rest may not be taken
		<-took
	})
	t.Run("places", func(t *testing.T) {
		c, took := begin(func(c *Closer) { c.places = make(chan struct{}) })
		answered(t, c)
		<-took
	})
}

// Where nothing can bound the reading nothing is read.
func TestServersWithoutDeadlines(t *testing.T) {
	body := bytes.NewReader(make([]byte, 100))
	New().End(httptest.NewRecorder(), httptest.NewRequest("POST", "/", body))
	(*Closer)(nil).End(httptest.NewRecorder(), httptest.NewRequest("POST", "/", body))
	if body.Len() != 100 {
		t.Errorf("%d bytes are left", body.Len())
	}
}
