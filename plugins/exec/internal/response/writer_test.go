package response

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is one answer of a handler over a real connection.
func served(t *testing.T, http2 bool, h func(*Writer), stall time.Duration) *http.Response {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := New(w, stall)
		h(out)
		out.End()
	}))
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if (res.ProtoMajor == 2) != http2 {
		t.Fatalf("answered over %s", res.Proto)
	}
	return res
}

// A reader that takes nothing is given up, in small pieces too: those wait in a flush.
func TestStalledReader(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for name, size := range map[string]int{"small": 1 << 10, "large": 1 << 20} {
			ended := make(chan error, 1)
			res := served(t, http2, func(w *Writer) {
				piece := make([]byte, size)
				for {
					_, err := w.Write(piece)
					if err == nil {
						err = http.NewResponseController(w).Flush()
					}
					if err != nil {
						if !errors.Is(w.Err(), err) {
							t.Errorf("%v is remembered as %v", err, w.Err())
						}
						ended <- err
						return
					}
				}
			}, 300*time.Millisecond)
			select {
			case err := <-ended:
				if !http2 && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s pieces: %v", name, err)
				}
			case <-time.After(20 * time.Second):
				res.Body.Close()
				t.Errorf("HTTP/2 %v, %s pieces: the handler still waits", http2, name)
			}
		}
	}
}

// An answer that is silent between its pieces, or slow to begin, is no stalled one.
func TestSilentAnswer(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		res := served(t, http2, func(w *Writer) {
			if w.Began() || w.Status() != 0 {
				t.Error("an answer has begun without a word")
			}
			for range 3 {
				_, err := io.WriteString(w, "piece ")
				if err = errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
			if !w.Began() || w.Status() != 200 || w.Bytes() != 18 || w.Err() != nil {
				t.Errorf("%d, %d bytes, %v", w.Status(), w.Bytes(), w.Err())
			}
		}, 500*time.Millisecond)
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "piece piece piece " {
			t.Errorf("HTTP/2 %v: %q, %v", http2, b, err)
		}
	}
}

// A server without deadlines or flushing is one that answers.
func TestPlainServer(t *testing.T) {
	w := httptest.NewRecorder()
	out := New(struct{ http.ResponseWriter }{w}, time.Second)
	out.WriteHeader(http.StatusTeapot)
	_, err := out.Write([]byte("x"))
	if flushed := out.FlushError(); err != nil || !errors.Is(flushed, errors.ErrUnsupported) || out.Err() != nil || out.Status() != http.StatusTeapot || w.Body.String() != "x" {
		t.Errorf("%v, %v, %v: %d %q", err, flushed, out.Err(), out.Status(), w.Body)
	}
}
