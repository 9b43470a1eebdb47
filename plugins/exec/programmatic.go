package exec

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/prelude"
	"github.com/caisson-run/caisson/plugins/exec/internal/programmatic"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Bounds of programs that call tools (docs/wire.md).
const (
	maxTools      = 100
	programRounds = 100
	programCalls  = 200
	// gatherCalls closes a round when no further call came for so long, gatherMost in
	// any case. Python sends all calls that it makes together at once; each call of a shell
	// is a process of its own, which has to start first.
	gatherCalls  = 20 * time.Millisecond
	gatherShells = 60 * time.Millisecond
	gatherMost   = 250 * time.Millisecond
	// keepReply is how long the last reply of a program can be had again, and how long a
	// cancellation waits for its request.
	keepReply = time.Minute
	// defaultBudget is how long a program may run between two rounds if its caller does
	// not say.
	defaultBudget = 15 * time.Second
)

// outcome is what came of a program.
type outcome struct {
	c   *call
	res *CodeResult
	err error
}

// program is what a call has beside a run's own when its program may ask for tools.
type program struct {
	*programmatic.Program[outcome]
	source []byte
	// calls says that there are tools.
	calls bool
}

// A program is told in which session it begins; output is read at its end.
func (p *program) Started(session string) { p.SetSession(session) }
func (p *program) Output(string, []byte)  {}
func (p *program) End(string, bool)       {}

var _ watcher = (*program)(nil)

func newPrograms(o Options, s services) *programmatic.Registry[outcome] {
	return programmatic.New[outcome](programmatic.Options{
		Programs: o.Programs, TenantPrograms: o.TenantPrograms, Rounds: programRounds, Calls: programCalls,
		TTL: o.ProgramTTL, Gather: gatherCalls, GatherMost: gatherMost, Keep: keepReply, Remember: keepReply,
		Token: func() (string, error) { return newToken(s) },
	})
}

// A token is an id that says, like a session's, on which node the program is, and beside
// it 128 random bits.
func newToken(s services) (string, error) {
	keys := s.Keys()
	id, err := keys.NewSession(keys.Route("", s.Peers().Node()))
	return id + tokenMark + rand.Text(), err
}

const tokenMark = "."

// nodePart returns the part of a token that says where its program is. It is false for
// what can be no token.
func nodePart(token string) (id string, ok bool) {
	id, secret, ok := strings.Cut(token, tokenMark)
	return id, ok && len(id) == identity.Length && identity.Syntax(id) && len(secret) == 26 && identity.Syntax(secret)
}

// programOwner is who may go on with a program: nobody but who began it.
func programOwner(p host.Principal) programmatic.Owner {
	if p.User != "" {
		return programmatic.Owner{Tenant: p.Org, User: p.User}
	}
	return programmatic.Owner{Tenant: p.Org, Key: p.KeyID}
}

// programRun is a request to run a program that may call tools.
type programRun struct {
	CodeRun
	tools []prelude.Tool
}

// decodeProgram reads the members of a request as tolerantly as a run's.
func decodeProgram(m map[string]json.RawMessage) (*programRun, error) {
	if isNull(m["lang"]) {
		m["lang"] = m["language"]
	}
	in := &programRun{}
	err := in.members(m)
	if err == nil {
		in.Lang, err = programLanguage(in.Lang)
	}
	if err == nil {
		in.tools, err = tools(m["tools"])
	}
	if fe, ok := errors.AsType[*fieldError](err); ok {
		return nil, refuse(http.StatusBadRequest, "invalid_request", fe.Error())
	}
	if err != nil {
		return nil, err
	}
	if in.Timeout == 0 {
		in.Timeout = defaultBudget.Milliseconds()
	}
	in.Args = nil
	if err := in.check(); err != nil {
		return nil, err
	}
	return in, nil
}

const (
	langPython = "py"
	langBash   = "bash"
)

// programLanguage is Python where nothing is said.
func programLanguage(lang string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(lang)) {
	case "", "py", "python", "python3":
		return langPython, nil
	case "bash", "sh", "shell":
		return langBash, nil
	}
	return "", refuse(http.StatusBadRequest, "unsupported_language",
		"Unsupported language: "+names.Show(lang)+". Programs that call tools are written in py or bash")
}

// tools reads the tools that a program may call.
func tools(raw json.RawMessage) ([]prelude.Tool, error) {
	if isNull(raw) {
		return nil, nil
	}
	values, err := elements(raw, "tools", maxTools)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(values))
	var out []prelude.Tool
	for i, v := range values {
		field := fmt.Sprintf("tools[%d]", i)
		m, err := members(v, "name", "description", "parameters")
		if err != nil {
			return nil, &fieldError{field, "must be an object"}
		}
		var t prelude.Tool
		if texts(m, member{"name", &t.Name}) != nil || t.Name == "" || len(t.Name) > control.MaxName || strings.ContainsRune(t.Name, 0) {
			return nil, &fieldError{field + ".name", fmt.Sprintf("must be a string of 1 to %d bytes", control.MaxName)}
		}
		if seen[t.Name] {
			return nil, &fieldError{field + ".name", "comes twice"}
		}
		seen[t.Name] = true
		_ = texts(m, member{"description", &t.Description}) // it decides nothing
		t.Parameters = m["parameters"]
		out = append(out, t)
	}
	return out, nil
}

// text returns the program with what lets it call its tools.
func (in *programRun) text() ([]byte, error) {
	if in.Lang == langPython {
		return prelude.Python(in.tools, in.Code), nil
	}
	source, err := prelude.Bash(in.tools, in.Code)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid_request", "tools: "+err.Error())
	}
	return source, nil
}

// equip lets the order's program call its tools.
func (p *program) equip(o *order, t session.Target) error {
	if p.calls && !t.Info.Has(backend.CapControl) {
		return refuse(http.StatusNotImplemented, codeUnsupported, "programs that call tools cannot run in this sandbox")
	}
	if p.calls {
		t.Lasts() // it may be suspended
	}
	o.spec.Control = p.calls
	o.spec.Program.Source = p.source
	return nil
}

// bounded returns the context of a run that a backend must have ended by then: after its
// wall limit, which for programs that call tools is that of one stretch.
func (c *call) bounded(ctx context.Context, wall time.Duration) (context.Context, context.CancelFunc) {
	if c.program == nil {
		return context.WithTimeout(ctx, wall+startSlack)
	}
	c.program.Budget(wall + startSlack)
	return context.WithCancel(ctx)
}

// programReply is what a request about a program is answered with. Status takes the place
// of a run's.
type programReply struct {
	Status            string     `json:"status"`
	ContinuationToken string     `json:"continuation_token,omitempty"`
	ToolCalls         []toolCall `json:"tool_calls,omitempty"`
	Error             string     `json:"error,omitempty"`
	SessionID         string     `json:"session_id"`
	// The other members are a run's; nil while the program goes on.
	*CodeResult
}

type toolCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Statuses of a program.
const (
	programCalling   = "tool_call_required"
	programCompleted = "completed"
	programFailed    = "error"
)

// textFailed is what clients are told where nothing better is known.
const textFailed = "Execution failed or timed out"

func roundReply(p *programmatic.Program[outcome], r *programmatic.Round) *programReply {
	out := &programReply{Status: programCalling, ContinuationToken: r.Token, SessionID: p.Session()}
	for _, c := range r.Calls {
		out.ToolCalls = append(out.ToolCalls, toolCall{ID: c.ID, Name: c.Name, Input: c.Input})
	}
	return out
}

// endReply says how a program ended. Clients show the text of an error only if it is one
// of those that they know.
func endReply(res *CodeResult) *programReply {
	out := &programReply{Status: programCompleted, SessionID: res.SessionID, CodeResult: res}
	switch {
	case res.Status != nil && *res.Status != "OL" && res.Message != nil && (*res.Message == textTimeout || *res.Message == textMemory):
		out.Error = *res.Message
	case res.Code == nil && res.Message != nil && *res.Message == textStdout:
		out.Error = textStdout
	case res.Code == nil:
		out.Error = textFailed
	case *res.Code != 0:
		out.Error = fmt.Sprintf("Sandbox exited with code %d", *res.Code)
	}
	if out.Error != "" {
		out.Status = programFailed
	}
	return out
}

// lateReply is a failure after the status was sent.
func lateReply(session string, wall time.Duration, e *host.HTTPError) *programReply {
	return &programReply{
		Status: programFailed, Error: textFailed, SessionID: session,
		CodeResult: &CodeResult{Stderr: "[sandbox] " + e.Message + "\n", Files: []CodeFile{}, WallTime: wall.Milliseconds()},
	}
}

// programRefusal turns an error of the registry into what its caller may see.
func programRefusal(err error) error {
	if full, ok := errors.AsType[*programmatic.FullError](err); ok {
		return rateLimited("too many programs that call tools at once", defaultRetry, full)
	}
	if re, ok := errors.AsType[*programmatic.ResultError](err); ok {
		return refuse(http.StatusBadRequest, "invalid_request", re.Rule)
	}
	if be, ok := errors.AsType[*programmatic.BodyError](err); ok {
		switch {
		case be.Syntax:
			return refuse(http.StatusBadRequest, "invalid_json", be.Rule)
		case be.Encoding:
			return refuse(http.StatusBadRequest, "invalid_body", be.Rule)
		case be.TooLarge:
			return refuse(http.StatusRequestEntityTooLarge, "too_large", be.Rule)
		}
		return refuse(http.StatusBadRequest, "invalid_request", be.Rule)
	}
	switch {
	case errors.Is(err, programmatic.ErrNotFound):
		return refuse(http.StatusNotFound, "not_found", "Execution not found or expired")
	case errors.Is(err, programmatic.ErrInFlight), errors.Is(err, programmatic.ErrAnswered):
		return refuse(http.StatusConflict, "conflict", err.Error())
	case errors.Is(err, programmatic.ErrCanceled):
		return fmt.Errorf("%w: %w", errCanceled, err)
	case errors.Is(err, programmatic.ErrClosed):
		return queue.ErrClosed
	}
	return err
}
