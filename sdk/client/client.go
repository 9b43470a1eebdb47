// Package client calls a Caisson server over HTTP: it runs programs and moves files.
//
// It is a thin layer over package wire, which is generated from the server's OpenAPI
// document (plugins/exec/openapi) and has every operation and member; what this package
// adds are credentials, bounds on what a server may send, and errors with a type.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/caisson-run/caisson/sdk/client/wire"
)

// Types of the wire that callers meet.
type (
	// Run is a request to run a program.
	Run = wire.CodeRun
	// Result is what came of it.
	Result = wire.CodeResult
	// File is a file of a session, as an input or an output.
	File = wire.File
	// Listed is a file as a listing has it.
	Listed = wire.ListedFile
	// Language is something that a new session can run, or could.
	Language = wire.Language
)

// Bounds on what a server may send where it is read as a whole.
const (
	maxReply = 256 << 20
	maxError = 64 << 10
)

// Options of New.
type Options struct {
	// URL is where the server is, such as "http://127.0.0.1:8080". Without a path,
	// /v1 is meant.
	URL string
	// Key is a service key, Token a bearer token; either may be empty.
	Key, Token string
	// HTTP sends requests: nil means a client of its own. Redirects are not followed,
	// whatever it says: they would take the credential along.
	HTTP *http.Client
}

// Client calls one server. It is safe for concurrent use and needs no closing.
type Client struct{ api *wire.Client }

// New checks o and connects to nothing.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the server's address must be an http or https URL without query or fragment")
	case u.User != nil:
		return nil, errors.New("the server's address must not hold a credential: pass it by itself")
	case u.Path == "" || u.Path == "/":
		u.Path = "/v1"
	}
	own := http.Client{}
	if o.HTTP != nil {
		own = *o.HTTP
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	api, err := wire.NewClient(u.String(), wire.WithHTTPClient(&own), wire.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if o.Key != "" {
			r.Header.Set("X-API-Key", o.Key)
		}
		if o.Token != "" {
			r.Header.Set("Authorization", "Bearer "+o.Token)
		}
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{api: api}, nil
}

// Run runs a program and waits for its end. A program that fails is a result; what
// kept it from running is an *Error. Ending ctx stops the program.
func (c *Client) Run(ctx context.Context, in Run) (*Result, error) {
	var out Result
	if err := c.call(&out)(c.api.RunCode(ctx, &wire.RunCodeParams{}, in)); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if out.Error != nil {
		e := &Error{Status: http.StatusOK, Message: value(out.Message), RetryAfter: seconds(out.RetryAfterSeconds)}
		e.Code, _ = out.Error.(string)
		return nil, fmt.Errorf("run: %w", e)
	}
	return &out, nil
}

// Languages lists what a new session can run, and what is known and cannot.
func (c *Client) Languages(ctx context.Context) ([]Language, error) {
	var out wire.Languages
	if err := c.call(&out)(c.api.ListLanguages(ctx)); err != nil {
		return nil, fmt.Errorf("list languages: %w", err)
	}
	return out.Languages, nil
}

// call reads a reply into v.
func (c *Client) call(v any) func(*http.Response, error) error {
	return func(res *http.Response, err error) error {
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			return failure(res)
		}
		if v == nil {
			return nil
		}
		body := &io.LimitedReader{R: res.Body, N: maxReply + 1}
		if err := json.NewDecoder(body).Decode(v); err != nil {
			if body.N == 0 {
				return fmt.Errorf("the server's reply is larger than %d MiB", maxReply>>20)
			}
			return fmt.Errorf("the server's reply cannot be read: %w", err)
		}
		return nil
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
