package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Names of environment variables of programs.
const (
	// EnvPath has the absolute path of the channel.
	EnvPath = "CAISSON_CONTROL"
	// EnvCall has the word that starts Command in a shell.
	EnvCall = "CAISSON_CALL"
)

// Sizes of what a program may say and be told, in bytes but for the counts.
const (
	// MaxValue bounds the JSON of one input and of one result.
	MaxValue = 5 << 20
	// MaxFrame bounds a frame: a value and what is around it.
	MaxFrame = MaxValue + 4<<10
	// MaxID and MaxName bound the members of a call.
	MaxID   = 64
	MaxName = 256
	// maxError bounds the text of an error; the rest of a longer one is cut off.
	maxError = 64 << 10
	// MaxOpen is how many calls of a run wait for an answer, on at most MaxConns
	// connections.
	MaxOpen  = 100
	MaxConns = 128
	// MaxHeld bounds the inputs of a run's open calls together, maxKept the answers
	// that its program has not fetched yet.
	MaxHeld = 32 << 20
	maxKept = 64 << 20
)

// Call is a call from the running program to the outside.
type Call struct {
	// ID is unique within the run: a decimal number that counts the run's calls in the
	// order in which the program made them. Callees go by it where that order matters,
	// and take calls that have other ids as they come.
	ID string `json:"id"`
	// Name is the callee's original name, Input one JSON value.
	Name  string `json:"name"`
	Input []byte `json:"input"`
}

// Check says which member of a call breaks the rules for its size.
func (c Call) Check() error {
	for _, m := range []struct {
		what   string
		n, max int
	}{{"id", len(c.ID), MaxID}, {"name", len(c.Name), MaxName}} {
		if m.n == 0 || m.n > m.max {
			return fmt.Errorf("%w: %s has %d bytes, not 1 to %d", errFrame, m.what, m.n, m.max)
		}
	}
	if len(c.Input) > MaxValue {
		return fmt.Errorf("%w: input has more than %d bytes", errFrame, MaxValue)
	}
	return nil
}

// Reply answers a Call.
type Reply struct {
	// Result is one JSON value of at most MaxValue bytes.
	Result []byte `json:"result,omitempty"`
	// Error, when set, becomes an exception in the program.
	Error string `json:"error,omitempty"`
}

// Bounded is what the program is told: a result that is too large becomes an error, and
// the rest of an error that is too long is cut off.
func (r Reply) Bounded() Reply {
	if r.Error == "" && len(r.Result) > MaxValue {
		r.Error = fmt.Sprintf("the result of the call has %d bytes, more than %d", len(r.Result), MaxValue)
	}
	if r.Error != "" {
		return Reply{Error: cut(r.Error, maxError)}
	}
	return r
}

// errFrame says that what a program sent is no frame.
var errFrame = errors.New("not a control frame")

// parseCall reads the frame of a call, without its line feed. ID is the program's own.
// Errors wrap errFrame.
func parseCall(line []byte) (Call, error) {
	bad := func(format string, args ...any) (Call, error) {
		return Call{}, fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
	}
	if len(line) >= MaxFrame {
		return bad("more than %d bytes", MaxFrame)
	}
	if !utf8.Valid(line) {
		return bad("not UTF-8")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return bad("no JSON object")
	}
	id, name, input := members["id"], members["name"], members["input"]
	if len(members) != 3 || id == nil || name == nil || input == nil {
		return bad("the members are id, name and input")
	}
	c := Call{Input: input}
	for _, m := range []struct {
		what string
		raw  json.RawMessage
		to   *string
	}{{"id", id, &c.ID}, {"name", name, &c.Name}} {
		if m.raw[0] != '"' || json.Unmarshal(m.raw, m.to) != nil {
			return bad("%s is no string", m.what)
		}
	}
	if err := c.Check(); err != nil {
		return Call{}, err
	}
	return c, nil
}

// appendCall appends the frame of a call, line feed included. Input must be valid JSON.
func appendCall(b []byte, c Call) ([]byte, error) {
	var input bytes.Buffer
	if err := json.Compact(&input, c.Input); err != nil {
		return b, fmt.Errorf("input: %w", err)
	}
	if input.Len() > MaxValue {
		return b, fmt.Errorf("input has %d bytes, more than %d", input.Len(), MaxValue)
	}
	b = appendString(append(b, `{"id":`...), c.ID)
	b = appendString(append(b, `,"name":`...), c.Name)
	b = append(append(b, `,"input":`...), input.Bytes()...)
	return append(b, "}\n"...), nil
}

// appendReply appends the frame of a reply to the call that the program knows as id,
// line feed included. A result that is no JSON value, or too large a one, becomes an
// error: the program is told something in any case.
func appendReply(b []byte, id string, r Reply) []byte {
	b = appendString(append(b, `{"id":`...), id)
	if r.Error == "" {
		var result bytes.Buffer
		if err := json.Compact(&result, r.Result); err != nil || !utf8.Valid(result.Bytes()) {
			r.Error = "the result of the call is no JSON"
		}
		r.Result = result.Bytes()
	}
	if r = r.Bounded(); r.Error == "" {
		b = append(append(b, `,"result":`...), r.Result...)
		return append(b, "}\n"...)
	}
	b = appendString(append(b, `,"error":`...), r.Error)
	return append(b, "}\n"...)
}

// parseReply reads the frame of a reply, with or without its line feed, and the id it
// is for. Errors wrap errFrame.
func parseReply(line []byte) (id string, r Reply, err error) {
	var f struct {
		ID     string          `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *string         `json:"error"`
	}
	if err := json.Unmarshal(line, &f); err != nil || f.ID == "" || (f.Result == nil) == (f.Error == nil) {
		return "", Reply{}, fmt.Errorf("%w: no reply", errFrame)
	}
	if f.Error != nil {
		return f.ID, Reply{Error: or(*f.Error, "the call failed")}, nil
	}
	return f.ID, Reply{Result: f.Result}, nil
}

// appendString appends s as JSON. Marshal cannot fail for strings.
func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s)
	return append(b, text...)
}

// cut shortens a text to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
