package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstWithoutBatches is the first version of the protocol that has no batches.
const firstWithoutBatches = "2025-06-18"

// lines hands on the messages of a client, one a line, and answers itself what is none:
// the SDK's reader ends the connection at the first line that it does not understand
// (github.com/modelcontextprotocol/go-sdk/issues/1209).
type lines struct {
	in    *bufio.Reader
	close func() error
	// answers goes to the client.
	answers io.Writer
	most    int // bytes of one line

	single bool   // the version that was negotiated has no batches
	rest   []byte // of the line that is being handed on
}

func newLines(in io.ReadCloser, answers io.Writer, most int) *lines {
	return &lines{in: bufio.NewReader(in), close: in.Close, answers: answers, most: most}
}

func (l *lines) Close() error { return l.close() }

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		if wrong := l.wrong(line); wrong != nil {
			if _, err := l.answers.Write(append(wrong, '\n')); err != nil {
				return 0, err
			}
			continue
		}
		l.rest = unmixed(line)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next returns the next line that is not empty, without what is around it. Of one that is
// too long it returns nothing but the first bytes, one more than there may be.
func (l *lines) next() ([]byte, error) {
	for {
		var line []byte
		part, err := l.in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = append(line, part[:min(len(part), l.most+1-len(line))]...)
			part, err = l.in.ReadSlice('\n')
		}
		part = bytes.TrimSuffix(part, []byte("\n"))
		if line = append(line, part[:min(len(part), l.most+1-len(line))]...); len(line) <= l.most {
			line = bytes.TrimSpace(line)
		}
		if len(line) > 0 {
			return line, nil // what comes of err is seen next time
		}
		if err != nil {
			return nil, err
		}
	}
}

// wrong is the answer to what is no message, or nil.
func (l *lines) wrong(line []byte) []byte {
	switch {
	case len(line) > l.most:
		return complaint(jsonrpc.CodeParseError, fmt.Sprintf("the message has more than %d bytes", l.most), nil)
	case !json.Valid(line):
		return complaint(jsonrpc.CodeParseError, "the line is not valid JSON", nil)
	}
	if wrong := wrongID(line); wrong != nil {
		return wrong
	}
	if line[0] == '[' {
		return l.wrongBatch(line)
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		var of struct{ ID json.RawMessage }
		_ = json.Unmarshal(line, &of)
		return complaint(jsonrpc.CodeInvalidRequest, "the line is no JSON-RPC message", of.ID)
	}
	l.heed(m)
	return nil
}

// heed notes which version of the protocol a client asks for. What forbade batches once
// does so for good: an attempt may fail, and the SDK ends the connection at a batch.
func (l *lines) heed(m jsonrpc.Message) {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "initialize" {
		var params struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(r.Params, &params)
		l.single = l.single || !batches(params.ProtocolVersion)
	}
}

// batches reports whether there are batches in the version of the protocol that is agreed
// on with a client that asks for one: what the SDK does not know becomes its newest.
func batches(asked string) bool {
	return asked < firstWithoutBatches && slices.Contains(sdk.SupportedProtocolVersions(), asked)
}

func (l *lines) wrongBatch(line []byte) []byte {
	if l.single {
		return complaint(jsonrpc.CodeInvalidRequest, "there are no batches in this version of the protocol", nil)
	}
	var each []json.RawMessage
	err := json.Unmarshal(line, &each)
	seen := make(map[jsonrpc.ID]bool, len(each))
	for _, raw := range each {
		m, e := jsonrpc.DecodeMessage(raw)
		if r, ok := m.(*jsonrpc.Request); ok && e == nil && seen[r.ID] {
			e = errors.New("two requests of one id")
		} else if ok {
			seen[r.ID] = r.ID.IsValid()
			l.heed(r)
		}
		err = errors.Join(err, e)
	}
	if err != nil || len(each) == 0 {
		return complaint(jsonrpc.CodeInvalidRequest, "the line is no batch of JSON-RPC messages", nil)
	}
	return nil
}

// unmixed is what is handed on of a line, with its line feed. Notifications of a batch become
// lines of their own: the SDK waits for their answers, and takes the second for a request
// that it has seen.
func unmixed(line []byte) []byte {
	var each, calls []json.RawMessage
	if line[0] != '[' || json.Unmarshal(line, &each) != nil {
		return append(line, '\n')
	}
	var out []byte
	for _, raw := range each {
		if m, err := jsonrpc.DecodeMessage(raw); err == nil {
			if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() {
				out = append(append(out, raw...), '\n')
				continue
			}
		}
		calls = append(calls, raw)
	}
	switch len(calls) {
	case len(each):
		return append(line, '\n')
	case 0:
		return out
	}
	out = append(out, '[')
	for k, raw := range calls {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, "]\n"...)
}

// complaint is an error as JSON-RPC has it. An id that can be none becomes null.
func complaint(code int, message string, id json.RawMessage) []byte {
	if len(id) == 0 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		id = json.RawMessage("null")
	}
	type fault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	b, _ := json.Marshal(struct { // it has nothing that cannot be written
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   fault           `json:"error"`
	}{"2.0", id, fault{code, message}})
	return b
}

// whole writes what one call of Write has in one piece.
type whole struct {
	mu sync.Mutex
	io.WriteCloser
}

func (w *whole) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
