// Package events writes what happens in a run as server-sent events (HTML
// standard §9.2), while it happens.
//
// Whoever reports events never waits for whoever reads them: what is not read
// yet is kept, joined where it is more of the same. What is kept is bounded by
// what is reported, which for output is the limits of the run. How long a reader
// may take is up to the writer: one whose writes fail is gone.
package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
)

// ContentType is what a stream of events is.
const ContentType = "text/event-stream"

// Names of the events of output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Bounds of a stream.
const (
	// maxText is how much text one event holds: with JSON's escapes it stays
	// below the 64 KiB that line readers take.
	maxText = 8 << 10
	// maxPending is how many events of output wait before further ones are joined
	// with those of their stream, whatever came between.
	maxPending = 1024
	// maxBuffer is how much is encoded before it is written.
	maxBuffer = 64 << 10
)

// Options of a Stream.
type Options struct {
	// Every is the time without an event after which a comment keeps the
	// connection open, and what passes at most before the status goes out.
	Every time.Duration
	// Gone is called at most once, when the reader is gone. It must not block.
	Gone func(error)
}

// Stream is the answer to one request. Output, End and Send are safe for
// concurrent use; what is reported after Close is written by Last.
type Stream struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
	o   Options

	mu      sync.Mutex
	out     map[string]*joiner
	pending []event
	began   bool
	failed  error

	wake chan struct{} // of one, so that a report never waits
	stop chan struct{}
	done sync.WaitGroup
	once sync.Once

	id int // of the last event; the writer's
}

// event is one that waits: text of an output stream, or data.
type event struct {
	name string
	text []byte
	data []byte
}

// Open returns a stream on w. Nothing is written before the first event, or
// before o.Every has passed. It has to be closed.
func Open(w http.ResponseWriter, o Options) *Stream {
	s := &Stream{
		w: w, ctl: http.NewResponseController(w), o: o,
		out:  map[string]*joiner{Stdout: {}, Stderr: {}},
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.done.Go(s.write)
	return s
}

// Output reports what a program wrote to a stream. It keeps nothing of p.
func (s *Stream) Output(name string, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text(name, s.out[name].add(p))
}

// End reports what is left of an output stream; cut says that a limit ended it,
// perhaps within a character.
func (s *Stream) End(name string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text(name, s.out[name].end(cut))
}

// Send reports an event with JSON data.
func (s *Stream) Send(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(event{name: name, data: bytes.TrimSpace(data)})
}

// text joins text with what waits already. s.mu is held.
func (s *Stream) text(name, text string) {
	if text == "" {
		return
	}
	// Of two streams the last two that wait hold both, once there are many.
	for back := 1; back <= 2 && back <= len(s.pending); back++ {
		last := &s.pending[len(s.pending)-back]
		if last.name == name && (back == 1 || len(s.pending) >= maxPending) {
			last.text = append(last.text, text...)
			return
		}
	}
	s.push(event{name: name, text: []byte(text)})
}

func (s *Stream) push(e event) {
	if s.failed != nil {
		return
	}
	s.pending = append(s.pending, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Began reports whether the status is out: a refusal has to be an event then. Ask
// after Close: until then the writer may begin.
func (s *Stream) Began() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// Close ends the writer once everything reported is written, and returns why the
// reader did not get it.
func (s *Stream) Close() error {
	s.once.Do(func() { close(s.stop) })
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Last writes one more event, after Close.
func (s *Stream) Last(name string, data []byte) error {
	s.Send(name, data)
	s.flush()
	return s.Close()
}

// write is the one goroutine that writes.
func (s *Stream) write() {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-s.wake:
			s.flush()
			tick.Reset(s.o.Every)
		case <-tick.C:
			s.put([]byte(":\n\n"))
		case <-s.stop:
			s.flush()
			return
		}
	}
}

// flush writes all that waits.
func (s *Stream) flush() {
	s.mu.Lock()
	batch := s.pending
	s.pending = nil
	s.mu.Unlock()
	var b bytes.Buffer
	for _, e := range batch {
		if e.data != nil {
			s.frame(&b, e.name, e.data)
		}
		for len(e.text) > 0 {
			n := min(len(e.text), maxText)
			n -= runes.Partial(e.text[:n])
			s.frame(&b, e.name, encode(string(e.text[:n])))
			e.text = e.text[n:]
		}
	}
	s.put(b.Bytes())
}

func encode(text string) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct { // a string always encodes
		Text string `json:"text"`
	}{text})
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// frame adds one event. JSON has no line break of its own, so data is one line.
func (s *Stream) frame(b *bytes.Buffer, name string, data []byte) {
	s.id++
	b.WriteString("id: " + strconv.Itoa(s.id) + "\nevent: " + name + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	if b.Len() >= maxBuffer { // escapes make text up to six times as long
		s.put(b.Bytes())
		b.Reset()
	}
}

// put writes b, unless the reader is gone.
func (s *Stream) put(b []byte) {
	if len(b) == 0 {
		return
	}
	s.mu.Lock()
	failed := s.failed
	if failed == nil && !s.began {
		s.began = true
		h := s.w.Header()
		h.Set("Content-Type", ContentType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no") // a proxy that buffers would defeat it
	}
	s.mu.Unlock()
	if failed != nil {
		return
	}
	_, err := s.w.Write(b)
	if err == nil {
		err = s.ctl.Flush()
	}
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return
	}
	s.mu.Lock()
	s.failed, s.pending = err, nil
	s.mu.Unlock()
	if s.o.Gone != nil {
		s.o.Gone(err)
	}
}

var _ io.Closer = (*Stream)(nil)
