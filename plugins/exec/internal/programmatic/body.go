package programmatic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
)

// Bounds of a body, in bytes.
const (
	// MaxBody is what all of it may have.
	MaxBody = 48 << 20
	// MaxResult bounds one result, MaxResults all of a continuation.
	MaxResult  = 5 << 20
	MaxResults = 40 << 20

	maxKey      = 64 << 10
	maxEnvelope = 256 << 10 // of a result beside its value
)

// Body is one request: the members of a first one, or a continuation.
type Body struct {
	// Members are those that BodyOptions.Known names. Of members with the same name the
	// last one counts.
	Members map[string]json.RawMessage
	// Token and Results are those of a continuation; Token is empty in a first request.
	Token   string
	Results []Result
}

// BodyError says what is wrong with a body.
type BodyError struct {
	// Syntax is set for what is no JSON object, Encoding for what is no UTF-8, TooLarge
	// for what is beyond a bound.
	Syntax, Encoding, TooLarge bool
	// Rule is the sentence.
	Rule string
}

func (e *BodyError) Error() string { return e.Rule }

func invalid(format string, args ...any) error {
	return &BodyError{Rule: fmt.Sprintf(format, args...)}
}

func malformed(rule string) error { return &BodyError{Syntax: true, Rule: rule} }

func tooLarge(format string, args ...any) error {
	return &BodyError{TooLarge: true, Rule: fmt.Sprintf(format, args...)}
}

// BodyOptions of ReadBody.
type BodyOptions struct {
	// Members bounds the bytes of all members of a first request.
	Members int64
	// Known are the names of the members of a first request that are kept.
	Known []string
	// Results bounds how many a continuation may bring.
	Results int
	// Token is told the token before anything that comes behind it is read. Its error
	// ends the reading.
	Token func(token string) error
}

// ReadBody reads one body. It holds no more of it than the bounds allow, whatever is
// sent. Errors of the reader and of Token come back as they are, others are *BodyError.
func ReadBody(r io.Reader, o BodyOptions) (*Body, error) {
	in := bufio.NewReader(r)
	b, err := in.Peek(3)
	switch {
	case err != nil && err != io.EOF:
		return nil, err // it is told once
	case bytes.Equal(b, []byte("\ufeff")):
		_, _ = in.Discard(3) // they are there
	}
	m := &metered{r: in}
	body := &bodyReader{o: o, m: m, d: json.NewDecoder(m), Body: Body{Members: make(map[string]json.RawMessage)}}
	if err := body.read(); err != nil {
		return nil, m.explain(err)
	}
	return &body.Body, nil
}

// metered is a reader that stops where what is being read must have ended.
type metered struct {
	r        io.Reader
	n, limit int64
	err      error // of the reader
	over     error // what to say beyond the limit
}

var errMetered = errors.New("beyond the bound")

func (m *metered) Read(p []byte) (int, error) {
	room := m.limit - m.n
	if room <= 0 {
		return 0, errMetered
	}
	n, err := m.r.Read(p[:min(int64(len(p)), room)])
	m.n += int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// explain turns what the decoder says into what is meant.
func (m *metered) explain(err error) error {
	if m.err != nil {
		return m.err
	}
	if errors.Is(err, errMetered) {
		return m.over
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return malformed(fmt.Sprintf("the body is not valid JSON: %s at byte %d", syntax.Error(), syntax.Offset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return malformed("the body is not valid JSON: it ends too early")
	}
	return err
}

type bodyReader struct {
	Body
	o BodyOptions
	m *metered
	d *json.Decoder

	unknown        json.RawMessage // the last member that nobody wants
	members        int64           // bytes
	results        int64           // bytes
	token, answers bool            // there was one
}

// allow lets the next thing have n bytes.
func (b *bodyReader) allow(n int64, over error) {
	b.m.limit, b.m.over = b.d.InputOffset()+n, over
}

func (b *bodyReader) read() error {
	b.allow(maxKey, malformed("the body must be a JSON object"))
	t, err := b.d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return malformed("the body must be a JSON object")
	}
	for {
		b.allow(maxKey, tooLarge("the name of a member, or white space, is longer than %d bytes", maxKey))
		if !b.d.More() {
			break
		}
		t, err := b.d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // the decoder lets nothing else stand there
		if key == "tool_results" {
			err = b.toolResults()
		} else {
			err = b.member(key)
		}
		if err != nil {
			return err
		}
	}
	if _, err := b.d.Token(); err != nil {
		return err
	}
	b.allow(maxKey, malformed("something follows the body's JSON object"))
	if _, err := b.d.Token(); err != io.EOF {
		if err == nil || b.m.err == nil {
			return malformed("something follows the body's JSON object")
		}
		return err
	}
	if b.answers && !b.token {
		return invalid("continuation_token is required beside tool_results")
	}
	if b.token && !b.answers {
		return invalid("tool_results is required beside continuation_token")
	}
	return nil
}

func (b *bodyReader) member(key string) error {
	over := tooLarge("the body is larger than %d bytes", b.o.Members)
	b.allow(b.o.Members-b.members+1, over)
	// A body may have a million members: each that is kept costs far more than it has bytes.
	known := key == "continuation_token" || slices.Contains(b.o.Known, key)
	var own json.RawMessage
	into := &own
	if !known {
		into = &b.unknown
	}
	if err := b.d.Decode(into); err != nil {
		return err
	}
	raw := *into
	if b.members += int64(len(raw) + len(key)); b.members > b.o.Members {
		return over
	}
	if !utf8.Valid(raw) {
		return &BodyError{Encoding: true, Rule: show(key) + " is not valid UTF-8"}
	}
	switch {
	case !known:
		return nil
	case key != "continuation_token":
		b.Members[key] = raw
		return nil
	}
	if string(raw) == "null" && !b.token {
		return nil
	}
	if b.token {
		return invalid("continuation_token comes twice")
	}
	if raw[0] != '"' || json.Unmarshal(raw, &b.Token) != nil || b.Token == "" {
		return invalid("continuation_token must be a string")
	}
	b.token = true
	return b.o.Token(b.Token)
}

func (b *bodyReader) toolResults() error {
	if b.answers {
		return invalid("tool_results comes twice")
	}
	t, err := b.d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return invalid("tool_results must be an array")
	}
	b.answers = true
	for {
		i := len(b.Results)
		over := tooLarge("tool_results[%d] is larger than %d bytes", i, MaxResult)
		b.allow(MaxResult+maxEnvelope, over)
		if !b.d.More() {
			break
		}
		if i >= b.o.Results {
			return invalid("tool_results has more than %d elements", b.o.Results)
		}
		var raw json.RawMessage
		if err := b.d.Decode(&raw); err != nil {
			return err
		}
		if b.results += int64(len(raw)); b.results > MaxResults {
			return tooLarge("tool_results is larger than %d bytes", MaxResults)
		}
		if !utf8.Valid(raw) {
			return &BodyError{Encoding: true, Rule: fmt.Sprintf("tool_results[%d] is not valid UTF-8", i)}
		}
		x, rule := result(raw)
		if rule != "" {
			return invalid("tool_results[%d]%s", i, rule)
		}
		if len(x.Value) > MaxResult {
			return over
		}
		b.Results = append(b.Results, x)
	}
	_, err = b.d.Token() // the bracket, unless More has seen something wrong
	return err
}

// result reads one element, or says what is wrong with it.
func result(raw json.RawMessage) (x Result, rule string) {
	m, err := shallow.Members(raw, "call_id", "is_error", "error_message", "result")
	if err != nil {
		return x, " must be an object"
	}
	if id := m["call_id"]; len(id) == 0 || id[0] != '"' || json.Unmarshal(id, &x.CallID) != nil || x.CallID == "" {
		return x, ".call_id must be a string"
	}
	switch string(m["is_error"]) {
	case "", "null", "false":
	case "true":
		x.IsError = true
	default:
		return x, ".is_error must be true or false"
	}
	if e := m["error_message"]; len(e) > 0 && string(e) != "null" {
		if e[0] != '"' || json.Unmarshal(e, &x.Error) != nil {
			return x, ".error_message must be a string"
		}
	}
	if !x.IsError {
		x.Error, x.Value = "", m["result"]
	}
	x.Error = runes.Cut(x.Error, maxError)
	return x, ""
}

// maxError bounds the text of an exception; the rest of a longer one is cut off.
const maxError = 16 << 10

// show shortens a name that a caller chose.
func show(s string) string {
	const most = 64
	if len(s) > most {
		s = runes.Cut(s, most) + "…"
	}
	return fmt.Sprintf("%q", s)
}
