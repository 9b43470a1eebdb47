package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Error is a refusal of the server.
type Error struct {
	// Status is the HTTP status; 200 where a run failed after its reply had begun.
	Status int
	// Code is a word for programs (docs/wire.md); it may be empty.
	Code string
	// Message is a sentence for people. It comes from the server: do not send it to a
	// terminal as it is.
	Message string
	// RetryAfter is when the request may succeed; 0 where the server does not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	switch {
	case e.Message != "" && e.Code != "":
		return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Code)
	case e.Message != "":
		return fmt.Sprintf("%s (%d)", e.Message, e.Status)
	}
	return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
}

// failure turns any answer that is no success into an *Error.
func failure(res *http.Response) error {
	e := &Error{Status: res.StatusCode}
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxError)) // what there is, is read
	var body struct {
		Message    string `json:"message"`
		Code       string `json:"code"`
		RetryAfter int64  `json:"retry_after_seconds"`
	}
	if json.Unmarshal(b, &body) == nil {
		e.Message, e.Code, e.RetryAfter = body.Message, body.Code, seconds(body.RetryAfter)
	}
	if n, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 64); err == nil && e.RetryAfter == 0 {
		e.RetryAfter = seconds(n)
	}
	return e
}

// seconds brings a server's number within an hour: nobody waits longer on its word.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 3600)) * time.Second
}
