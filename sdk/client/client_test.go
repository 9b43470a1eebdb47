package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddresses(t *testing.T) {
	for _, u := range []string{"", "host", "ftp://host", "http://", "http://key@host", "http://host?x", "http://host/#x", "http://%"} {
		if _, err := New(Options{URL: u}); err == nil {
			t.Errorf("%q is taken", u)
		} else if strings.Contains(err.Error(), "key@") {
			t.Errorf("%q: the error repeats the credential", u)
		}
	}
	for u, want := range map[string]string{"http://h": "/v1/languages", "http://h/": "/v1/languages", "http://h/v1/exec": "/v1/exec/languages", "http://h/x/": "/x/languages"} {
		c, err := New(Options{URL: u, HTTP: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != want {
				t.Errorf("%s asks for %s", u, r.URL.Path)
			}
			return nil, io.ErrUnexpectedEOF
		})}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Languages(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", u, err)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server cannot have the credential sent to another one.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	c, err := New(Options{URL: s.URL, Key: "secret", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context(), Run{Lang: "py", Code: "1"})
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
	s.Client().CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// respond calls f with a client whose server answers so.
func respond(t testing.TB, status int, header http.Header, body string) *Client {
	t.Helper()
	c, err := New(Options{URL: "http://host", HTTP: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		header http.Header
		body   string
		want   Error
	}{
		{429, nil, `{"error":"rate_limited","message":"slow","code":"rate_limited","retry_after_seconds":7}`, Error{429, "rate_limited", "slow", 7 * time.Second}},
		{503, http.Header{"Retry-After": {"9"}}, `<html>`, Error{503, "", "", 9 * time.Second}},
		{503, http.Header{"Retry-After": {"-9"}}, ``, Error{503, "", "", 0}},
		{429, http.Header{"Retry-After": {"999999999999"}}, `{}`, Error{429, "", "", time.Hour}},
		{402, nil, `{"error":{"code":"x"},"message":"pay","code":"insufficient_balance"}`, Error{402, "insufficient_balance", "pay", 0}},
		{200, nil, `  {"session_id":"s","status":"XX","message":"gone","error":"execution_timeout"}`, Error{200, "execution_timeout", "gone", 0}},
	} {
		_, err := respond(t, tt.status, tt.header, tt.body).Run(t.Context(), Run{})
		if e, ok := errors.AsType[*Error](err); !ok || *e != tt.want {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
	}
}

// FuzzReplies: whatever a server sends, the client answers something.
func FuzzReplies(f *testing.F) {
	f.Add(200, `{"session_id":"s","files":[{"id":"a","name":"b"}],"code":0}`, "bytes 0-1/2")
	f.Add(206, `[{"name":"a","lastModified":"2026-01-02T03:04:05.000Z"}]`, "bytes */x")
	f.Add(206, `[]`, "bytes 1-2/-5")
	f.Add(404, `{"error":{"code":1},"message":2}`, "")
	f.Fuzz(func(t *testing.T, status int, body, contentRange string) {
		c := respond(t, status, http.Header{"Content-Range": {contentRange}}, body)
		res, err := c.Run(t.Context(), Run{Lang: "py", Code: "1"})
		if (res == nil) == (err == nil) {
			t.Errorf("run: %v, %v", res, err)
		}
		_, _ = c.List(t.Context(), "s")
		_, _ = c.Languages(t.Context())
		if s, err := c.Put(t.Context(), "", "n", strings.NewReader(body)); err == nil && s.ID == "" {
			t.Error("stored as nothing")
		}
		if x, err := c.Open(t.Context(), "s", "f", 1, 2); err == nil {
			if x.Size < -1 {
				t.Errorf("size %d", x.Size)
			}
			_ = x.Close()
		}
	})
}

func TestNamesOfUploads(t *testing.T) {
	c := respond(t, 200, nil, `{}`)
	for _, name := range []string{"", "a\r\nX: y", "a\x00b"} {
		if _, err := c.Put(t.Context(), "", name, strings.NewReader("")); err == nil || strings.Contains(err.Error(), "server") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
