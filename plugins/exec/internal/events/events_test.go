package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read takes a whole body apart as a client does, without comments.
func read(t *testing.T, body string) (names []string, texts map[string]string) {
	t.Helper()
	texts = make(map[string]string)
	id := 0
	for _, block := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		id++
		lines := strings.Split(block, "\n")
		if len(lines) != 3 || lines[0] != fmt.Sprintf("id: %d", id) {
			t.Fatalf("event %d is %q", id, block)
		}
		name := strings.TrimPrefix(lines[1], "event: ")
		data := strings.TrimPrefix(lines[2], "data: ")
		if len(lines[2]) > 64<<10 {
			t.Errorf("a line of %d bytes", len(lines[2]))
		}
		names = append(names, name)
		var d struct{ Text string }
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("event %d: %v in %q", id, err, data)
		}
		texts[name] += d.Text
	}
	return names, texts
}

func TestEventsInOrder(t *testing.T) {
	w := httptest.NewRecorder()
	s := Open(w, Options{Every: time.Hour})
	s.Send("started", []byte(`{"session_id":"s"}`+"\n"))
	s.Output(Stdout, []byte("a\n\xe2\x82"))
	s.Output(Stdout, []byte("\xac\nid: 7\n\n"))
	s.Output(Stderr, []byte("e\xff"))
	s.Output(Stderr, []byte("\xfe\xe2\x82"))
	s.Output(Stdout, []byte("b\xe2"))
	s.End(Stdout, true)
	s.End(Stderr, false)
	s.Send("result", []byte(`{}`))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, texts := read(t, w.Body.String())
	if texts[Stdout] != "a\n€\nid: 7\n\nb" || texts[Stderr] != "e\ufffd" {
		t.Errorf("texts = %q", texts)
	}
	if names[0] != "started" || names[len(names)-1] != "result" {
		t.Errorf("order = %q", names)
	}
	if h := w.Header(); h.Get("Content-Type") != ContentType || h.Get("Cache-Control") != "no-store" || h.Get("Content-Length") != "" || !w.Flushed {
		t.Errorf("headers = %v", h)
	}
}

// Nothing goes out before there is something to say, so that a refusal keeps its
// status; once it did, Last says how it ended.
func TestSilenceIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := Open(w, Options{Every: 3 * time.Second})
		time.Sleep(2 * time.Second)
		if err := s.Close(); err != nil || s.Began() || w.Body.Len() != 0 || len(w.Header()) != 0 {
			t.Errorf("%v, began %v, %q %v", err, s.Began(), w.Body, w.Header())
		}
		w = httptest.NewRecorder()
		s = Open(w, Options{Every: 3 * time.Second})
		time.Sleep(7 * time.Second)
		if err := s.Close(); err != nil || !s.Began() {
			t.Errorf("%v, began %v", err, s.Began())
		}
		if err := s.Last("failure", []byte(`{"status":503}`)); err != nil {
			t.Error(err)
		}
		if want := ":\n\n:\n\nid: 1\nevent: failure\ndata: {\"status\":503}\n\n"; w.Body.String() != want {
			t.Errorf("%q", w.Body)
		}
	})
}

// slow is a reader that takes nothing until it is told to.
type slow struct {
	*httptest.ResponseRecorder
	gate chan struct{}
}

func (w slow) Write(p []byte) (int, error) {
	<-w.gate
	return w.ResponseRecorder.Write(p)
}

// What a slow reader has not taken is joined: neither lost nor many events.
func TestSlowReaders(t *testing.T) {
	w := slow{httptest.NewRecorder(), make(chan struct{})}
	s := Open(w, Options{Every: time.Hour})
	const n = 20_000
	for range n {
		s.Output(Stdout, []byte("o\x01"))
		s.Output(Stderr, []byte("ë"))
	}
	s.mu.Lock()
	waiting := len(s.pending)
	s.mu.Unlock()
	if waiting > maxPending {
		t.Errorf("%d events wait", waiting)
	}
	close(w.gate)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, texts := read(t, w.Body.String())
	if texts[Stdout] != strings.Repeat("o\x01", n) || texts[Stderr] != strings.Repeat("ë", n) {
		t.Errorf("%d and %d bytes arrived", len(texts[Stdout]), len(texts[Stderr]))
	}
}

// patient gives a reader a moment for each write.
type patient struct{ http.ResponseWriter }

func (w patient) Write(p []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

func (w patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A reader is gone, and told so once, when what it has to take cannot be written;
// what is reported afterwards is dropped.
func TestReadersThatAreGone(t *testing.T) {
	gone := make(chan error, 2)
	closed := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := Open(patient{w}, Options{Every: time.Hour, Gone: func(err error) { gone <- err }})
		big := []byte(strings.Repeat("x", 1<<20))
		for range 64 { // more than sockets hold
			s.Output(Stdout, big)
		}
		first := s.Close()
		s.Output(Stdout, big)
		if err := s.Last("result", []byte("{}")); err == nil || len(s.pending) != 0 {
			t.Errorf("%v, and %d events wait for nobody", err, len(s.pending))
		}
		closed <- first
	}))
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := <-closed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("closed with %v", err)
	}
	if err := <-gone; !errors.Is(err, os.ErrDeadlineExceeded) || len(gone) != 0 {
		t.Errorf("gone with %v and %d more", err, len(gone))
	}
}

// Reports from several goroutines at once come out whole.
func TestConcurrentReports(t *testing.T) {
	pr, pw := io.Pipe()
	w := &piped{header: make(http.Header), w: pw}
	s := Open(w, Options{Every: time.Hour})
	body := make(chan string)
	go func() {
		b, _ := io.ReadAll(pr)
		body <- string(b)
	}()
	var wg sync.WaitGroup
	for _, name := range []string{Stdout, Stderr} {
		wg.Go(func() {
			for range 500 {
				s.Output(name, []byte(name))
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_ = pw.Close()
	_, texts := read(t, <-body)
	for _, name := range []string{Stdout, Stderr} {
		if texts[name] != strings.Repeat(name, 500) {
			t.Errorf("%s has %d bytes", name, len(texts[name]))
		}
	}
}

// piped cannot flush and has no deadlines, as some servers.
type piped struct {
	header http.Header
	w      io.Writer
}

func (p *piped) Header() http.Header         { return p.header }
func (p *piped) WriteHeader(int)             {}
func (p *piped) Write(b []byte) (int, error) { return p.w.Write(b) }

func TestWanted(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"application/json, text/plain, */*":   false,
		"text/*":                              false,
		"text/event-stream":                   true,
		"TEXT/Event-Stream; charset=utf-8":    true,
		"application/json, text/event-stream": true,
		"text/event-stream;q=0":               false,
		"text/event-stream;q=0.5, application/json": false,
		"text/event-stream;q=nan":                   false,
		"text/event-stream;q=2":                     false,
		"nonsense;;, text/event-stream":             true,
	} {
		if got := Wanted(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	if !Wanted(http.Header{"Accept": {"text/plain", "text/event-stream"}}) {
		t.Error("a header sent twice")
	}
}

// However output is cut into pieces, its text is that of the whole.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\xe2\x82\xac\xff\xfe\xf0\x9f\x98"), uint8(3), false)
	f.Add([]byte("\xe2\x82\xe2\x82\xac"), uint8(1), true)
	f.Add([]byte("\xc3\x28\x80\x80\x80\xed\xa0\x80\ufffd\xff"), uint8(2), false)
	f.Fuzz(func(t *testing.T, b []byte, n uint8, cut bool) {
		var j joiner
		var got strings.Builder
		size := int(n%7) + 1
		for rest := b; len(rest) > 0; {
			k := min(size, len(rest))
			if text := j.add(rest[:k]); text != strings.ToValidUTF8(text, "") {
				t.Fatalf("%q is no text", text)
			} else {
				got.WriteString(text)
			}
			rest = rest[k:]
		}
		got.WriteString(j.end(cut))
		whole := b
		if cut {
			whole = b[:len(b)-runes.Partial(b)]
		}
		if want := strings.ToValidUTF8(string(whole), "\ufffd"); got.String() != want {
			t.Errorf("%q in pieces of %d is %q, want %q", b, size, got.String(), want)
		}
	})
}

// No header makes it panic, and JSON alone is never answered with events.
func FuzzWanted(f *testing.F) {
	f.Add("text/event-stream;q=0.1,application/json;q=1e-3")
	f.Fuzz(func(t *testing.T, accept string) {
		if Wanted(http.Header{"Accept": {accept}}) && !strings.Contains(strings.ToLower(accept), "event-stream") {
			t.Errorf("%q", accept)
		}
	})
}
