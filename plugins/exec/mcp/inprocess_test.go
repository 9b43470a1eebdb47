package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

var nothing = http.NotFoundHandler()

type valueKey struct{}

// overIt is a client of a handler, for a request with these headers.
func overIt(h http.HandlerFunc, headers http.Header) (*http.Client, *sync.WaitGroup) {
	outer := httptest.NewRequestWithContext(context.WithValue(context.Background(), valueKey{}, "outer"), "POST", "http://name:1/mcp", nil)
	outer.Header, outer.RemoteAddr = headers, "1.2.3.4:5"
	wg := new(sync.WaitGroup)
	return &http.Client{Transport: inProcess{handler: h, outer: outer, running: wg}}, wg
}

// A handler sees whose request it is, and nothing of the request around it.
func TestInProcessRequest(t *testing.T) {
	c, wg := overIt(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "body" {
			t.Errorf("%q, %v", b, err)
		}
		if r.Host != "name:1" || r.RemoteAddr != "1.2.3.4:5" || r.RequestURI != "/a/b%2Fc?d=e" || r.URL.Host != "" || r.URL.Path != "/a/b/c" || r.Context().Value(valueKey{}) != "outer" {
			t.Errorf("%+v", r)
		}
		if r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("Range") != "bytes=0-1" || r.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("%v", r.Header)
		}
		for _, name := range []string{"Mcp-Session-Id", "Caisson-Peer", callHeader, "Origin", "Expect", "X-CodeAPI-Expected-Profile"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s came through", name)
			}
		}
		w.Header().Set("Content-Length", "4")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Late", "x")
		_, _ = io.WriteString(w, "back")
	}, http.Header{
		"Authorization": {"Bearer t"}, "Range": {"bytes=5-"}, "Mcp-Session-Id": {"s"}, "Caisson-Peer": {"p"}, callHeader: {"c"},
		"Origin": {"o"}, "Expect": {"100-continue"}, "X-Codeapi-Expected-Profile": {"stateful"}, "Content-Type": {"application/json"},
	})
	q, err := http.NewRequestWithContext(t.Context(), "PUT", "http://in-process/a/b%2Fc?d=e", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Range", "bytes=0-1")
	q.Header.Set("Content-Type", "text/plain")
	res, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || string(b) != "back" || res.StatusCode != http.StatusTeapot || res.ContentLength != 4 || res.Header.Get("Late") != "" {
		t.Errorf("%+v, %q, %v", res, b, err)
	}
	_ = res.Body.Close()
	wg.Wait()
}

// A handler ends when its answer is not wanted any more, and its end is seen.
func TestInProcessEnds(t *testing.T) {
	get := func(c *http.Client, ctx context.Context) (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, "GET", "http://in-process/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Do(q)
	}
	until := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

	ctx, cancel := context.WithCancel(t.Context())
	c, wg := overIt(func(w http.ResponseWriter, r *http.Request) { cancel(); until(w, r) }, nil)
	if res, err := get(c, ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("before the head: %v, %v", res, err)
	}
	wg.Wait()

	c, wg = overIt(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		until(w, r)
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("somebody reads what nobody wants")
		}
	}, nil)
	res, err := get(c, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	wg.Wait()

	for _, v := range []any{http.ErrAbortHandler, "other"} {
		c, wg = overIt(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")); panic(v) }, nil)
		if res, err = get(c, t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err == nil || string(b) != "x" {
			t.Errorf("a panic of %v looks like an end: %q", v, b)
		}
		_ = res.Body.Close()
		wg.Wait()
	}
	c, wg = overIt(func(http.ResponseWriter, *http.Request) {}, nil)
	if res, err = get(c, t.Context()); err != nil || res.StatusCode != 200 {
		t.Errorf("a handler that writes nothing: %+v, %v", res, err)
	}
	_ = res.Body.Close()
	wg.Wait()
}
