package envd

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// userAgent does not look like a browser's: gateways answer those with pages.
const userAgent = "caisson"

// newTransport is the one pool of a client. It speaks HTTP/1.1 only, as the daemon
// does, knows no proxy, and leaves bodies as they are.
func (c *Client) newTransport() *http.Transport {
	t := &http.Transport{
		DialContext:            c.dialGateway,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.opts.TLS != nil {
		t.TLSClientConfig = c.opts.TLS.Clone()
	}
	return t
}

// daemonTransport adds what the daemon and the gateway want to see to requests of one
// sandbox.
type daemonTransport struct {
	c *Client
	b *box
}

func (t *daemonTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	t.c.authorize(req.Header, t.b.endpoint, Port)
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(t.c.opts.User+":")))
	return t.c.send(req)
}

// authorize adds the tokens of a sandbox for one of its ports.
func (c *Client) authorize(h http.Header, e Endpoint, port int) {
	h.Set("User-Agent", userAgent)
	if port == Port && e.AccessToken != "" {
		h.Set("X-Access-Token", e.AccessToken)
	}
	if e.TrafficToken != "" && (port != Port || c.opts.TrafficOnDaemon) {
		h.Set("E2b-Traffic-Access-Token", e.TrafficToken)
	}
}

// send sends a request, whose URL has the logical host, through the gateway. Over
// plain HTTP all sandboxes share the gateway's connections.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	if c.address != "" && !c.secure {
		req.Host = req.URL.Host
		u := *req.URL
		u.Host = c.address
		req.URL = &u
	}
	return c.transport.RoundTrip(req)
}

// typedTransport stands under the RPC client and keeps what it would lose: an answer
// that is none of the protocol becomes a *fault.Reply in the error's chain.
type typedTransport struct{ next http.RoundTripper }

func (t *typedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	want, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK {
		if kind == want {
			return res, nil
		}
		return nil, fault.Read(res)
	}
	if kind != "application/json" {
		return nil, fault.Read(res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxError))
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	reply := fault.Parse(res.StatusCode, res.Header, body)
	if reply.Code == "" || strings.Contains(string(body), `"error_code"`) {
		return nil, reply
	}
	// An error of the protocol: its code is a word.
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	res.ContentLength = int64(len(body))
	return res, nil
}

// maxError is how much of an error is read.
const maxError = 64 << 10

// errRedirect is what a redirect is: credentials must not follow one.
var errRedirect = errors.New("the gateway answered with a redirect, which is not followed")

// noRedirect turns redirects, which are answers like any other here, into errors.
func (c *Client) noRedirect(op string, res *http.Response) error {
	if res.StatusCode < 300 || res.StatusCode > 399 {
		return nil
	}
	_ = res.Body.Close()
	e := c.fail(op, backend.KindInternal, "%w", errRedirect)
	e.Status = res.StatusCode
	return e
}
