package envdfake

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fault is what happens to some requests instead of, or to, their answers.
type Fault struct {
	// Method and Path choose requests; empty chooses all. A path that ends with "*"
	// chooses by its beginning.
	Method, Path string
	// Skip requests that match are left alone first, Times are not then; 0 is one and
	// less than that all.
	Skip, Times int

	// Status, Header and Body answer instead of the server. Body is HTML when it
	// begins with "<", and JSON when it begins with "{", unless Header says otherwise.
	Status int
	Header map[string]string
	Body   string
	// Reset hangs up without an answer.
	Reset bool
	// Wait passes before anything else does.
	Wait time.Duration
	// Cut hangs up after so many bytes of the real answer's body; 0 is never.
	Cut int
	// Stall stops after so many bytes of it and says nothing more until the client
	// leaves; 0 is never.
	Stall int
}

// Script is a list of faults. The first that matches a request applies. The zero value
// is empty and ready, and safe for concurrent use.
type Script struct {
	mu     sync.Mutex
	faults []*scripted
}

type scripted struct {
	Fault
	seen, done int
}

// Add appends a fault.
func (s *Script) Add(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &scripted{Fault: f})
}

// Clear removes all faults.
func (s *Script) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Script) match(r *http.Request) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		prefix, any := strings.CutSuffix(f.Path, "*")
		if f.Method != "" && f.Method != r.Method || any && !strings.HasPrefix(r.URL.Path, prefix) || !any && f.Path != "" && f.Path != r.URL.Path {
			continue
		}
		if f.seen++; f.seen <= f.Skip || f.Times > 0 && f.done >= f.Times {
			continue
		}
		f.done++
		return f.Fault, true
	}
	return Fault{}, false
}

// Wrap puts the script before a handler.
func (s *Script) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := s.match(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if f.Wait > 0 {
			select {
			case <-time.After(f.Wait):
			case <-r.Context().Done():
				return
			}
		}
		switch {
		case f.Reset:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			switch {
			case strings.HasPrefix(f.Body, "<"):
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
			case strings.HasPrefix(f.Body, "{"):
				w.Header().Set("Content-Type", "application/json")
			}
			for k, v := range f.Header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(f.Status)
			_, _ = w.Write([]byte(f.Body))
		default:
			next.ServeHTTP(&faultyWriter{ResponseWriter: w, fault: f, r: r}, r)
		}
	})
}

// faultyWriter loses the rest of an answer.
type faultyWriter struct {
	http.ResponseWriter
	fault Fault
	r     *http.Request
	n     int
}

func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *faultyWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	limit := w.fault.Cut + w.fault.Stall
	if limit == 0 || w.n+len(p) < limit {
		w.n += len(p)
		return w.ResponseWriter.Write(p)
	}
	_, _ = w.ResponseWriter.Write(p[:limit-w.n])
	w.Flush()
	if w.fault.Stall > 0 {
		<-w.r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}
