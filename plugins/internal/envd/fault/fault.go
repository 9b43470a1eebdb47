// Package fault tells what answers of a provider mean: HTTP statuses and error codes
// become the ten neutral kinds of sdk/backend. It is the one place where that is
// decided, for the control plane as for the data plane, and it is strict about the
// two kinds that may end a sandbox's binding.
package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxBody is how much of an error body is read.
	maxBody = 4 << 10
	// maxText is how much of what it says becomes part of a message: some servers
	// send back what they were sent.
	maxText = 512
)

// Reply is an HTTP answer that is no success, as far as it was understood. As an
// error it says no more than the status.
type Reply struct {
	Status int
	// RetryAfter is the server's hint; zero is none.
	RetryAfter time.Duration
	// JSON says that the body was a JSON object; Message and Code are from it. Code
	// is "error_code", or a "code" that is a word.
	JSON    bool
	Message string
	Code    string
	// Text is the body where it was no JSON, shortened. Page says that it was HTML.
	Text string
	Page bool
	// Numeric says that the body's "code" was a number, as envd and the control
	// planes have it and the Connect protocol has not.
	Numeric bool
}

func (r *Reply) Error() string { return fmt.Sprintf("HTTP status %d", r.Status) }

// Says reports whether the body contains a text, in any case.
func (r *Reply) Says(text string) bool {
	return strings.Contains(strings.ToLower(r.Message+"\n"+r.Text), strings.ToLower(text))
}

// Read reads what a response says, and closes its body.
func Read(res *http.Response) *Reply {
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // as much as came
	return Parse(res.StatusCode, res.Header, body)
}

// Parse understands an answer that was read already.
func Parse(status int, header http.Header, body []byte) *Reply {
	body = body[:min(len(body), maxBody)]
	r := &Reply{Status: status, RetryAfter: retryAfter(header.Get("Retry-After"))}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	trimmed := strings.TrimSpace(string(body))
	r.Page = kind == "text/html" || strings.HasPrefix(strings.ToLower(trimmed), "<!doctype html") || strings.HasPrefix(strings.ToLower(trimmed), "<html")
	var object map[string]json.RawMessage
	if !r.Page && json.Unmarshal(body, &object) == nil && object != nil {
		r.JSON = true
		word := func(key string) string {
			var s string
			if json.Unmarshal(object[key], &s) != nil {
				return ""
			}
			return s
		}
		for _, key := range []string{"message", "detail", "error"} {
			if r.Message == "" {
				r.Message = clip(word(key))
			}
		}
		if r.Code = clip(word("error_code")); r.Code == "" {
			r.Code = clip(word("code"))
		}
		var n json.Number
		r.Numeric = r.Code == "" && json.Unmarshal(object["code"], &n) == nil && n != ""
		return r
	}
	if !r.Page {
		r.Text = clip(trimmed)
	}
	return r
}

// clip makes one printable line of at most maxText bytes.
func clip(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == utf8.RuneError {
			return ' '
		}
		return c
	}, s)
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// retryAfter understands seconds; a date is none, since clocks differ.
func retryAfter(h string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(h))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
