package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// inProcess answers a client's requests by a handler of this process. They come from
// whoever sent the request that they are made for: its headers go along, and so does
// what the server knows about its connection.
type inProcess struct {
	handler http.Handler
	outer   *http.Request
	running *sync.WaitGroup // handlers
}

// borrowed ends like one context and has the values of another: those of a session are
// of the request that began it.
type borrowed struct {
	context.Context
	values context.Context
}

func (b borrowed) Value(key any) any { return b.values.Value(key) }

// dropped are headers about the outer request itself, and not about who sent it.
var dropped = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
	"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive", "Last-Event-Id",
	"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Origin", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	// A replica's word about one request says nothing about another one.
	"Caisson-Peer",
	// What a client of the wire asks of the whole server is no header of this protocol.
	"X-Codeapi-Expected-Profile", "X-Librechat-Code-Request-Id", "X-Librechat-Code-Worker-Id", "X-Librechat-Code-Workspace-Id",
	callHeader,
}

// RoundTrip implements http.RoundTripper. The handler runs beside the caller until it has
// answered; closing the body or ending the request's context ends it.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(borrowed{r.Context(), p.outer.Context()})
	in := r.Clone(ctx)
	in.Host, in.RemoteAddr, in.TLS = p.outer.Host, p.outer.RemoteAddr, p.outer.TLS
	in.RequestURI = in.URL.RequestURI()
	in.URL.Scheme, in.URL.Host = "", ""
	own := in.Header
	in.Header = p.outer.Header.Clone()
	for _, name := range dropped {
		in.Header.Del(name)
	}
	for name, values := range own {
		in.Header[name] = values
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	read, write := io.Pipe()
	w := &pipeWriter{body: write, header: make(http.Header), began: make(chan struct{})}
	p.running.Go(func() {
		defer cancel()
		defer func() {
			_ = in.Body.Close()
			if v := recover(); v != nil { // as net/http does for the requests that it answers
				w.WriteHeader(http.StatusInternalServerError)
				err, _ := v.(error)
				if !errors.Is(err, http.ErrAbortHandler) {
					err = fmt.Errorf("panic in a handler: %v", v)
				}
				_ = write.CloseWithError(err)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = write.Close()
		}()
		p.handler.ServeHTTP(w, in)
	})
	select {
	case <-w.began:
	case <-r.Context().Done():
		// The handler ends by itself, on the same context; what it writes is dropped.
		_ = read.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	length := int64(-1)
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		length = n
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, ContentLength: length,
		Body: &pipeBody{PipeReader: read, cancel: cancel}, Request: r,
	}, nil
}

// pipeBody ends the handler when nobody reads its answer any more.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *pipeBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// pipeWriter is the ResponseWriter of such a request.
type pipeWriter struct {
	body   *io.PipeWriter
	header http.Header

	once   sync.Once
	began  chan struct{}
	status int         // once began is closed
	sent   http.Header // the same
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < 200 {
		return // an informational answer is for connections
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.began)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: what is written is there.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }
