package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/sdk/client"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// instructions are shown to the model.
const instructions = `Runs programs in isolated sandboxes without network. A session is a sandbox whose files in
/mnt/data stay from one call to the next; processes and variables do not. Pass the session_id of a reply to go on
in its session. Programs see uploaded files in their working directory and leave results there.`

// tools are what one server offers.
type tools struct {
	// caller is the client that acts with the credential of the request which brought
	// a call, and a context that ends with it.
	caller func(ctx context.Context, x *sdk.RequestExtra) (*client.Client, context.Context, context.CancelFunc, error)
	output int
	// fault is told what a caller must not see.
	fault func(tool string, err error)
}

// schemas are the same for every server of the process; they are a cache.
func newServer(t *tools, version string, schemas *sdk.SchemaCache, sessionID func() string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "caisson", Title: "Caisson", Version: version}, &sdk.ServerOptions{
		Instructions: instructions, SchemaCache: schemas, GetSessionID: sessionID,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // the list never changes
	})
	no := false
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
	writes := &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	add(s, t, "run_code", "Run a program and get its output and the files that it made.", &sdk.ToolAnnotations{OpenWorldHint: &no}, t.runCode)
	add(s, t, "upload_file", "Store a file in a session, or in a new one.", writes, t.uploadFile)
	add(s, t, "list_files", "List the files of a session.", reads, t.listFiles)
	add(s, t, "read_file", "Read a file of a session, or a part of it.", reads, t.readFile)
	add(s, t, "describe", "List the languages and the operations of the HTTP interface behind these tools, or describe one operation.", reads, t.describe)
	return s
}

// work is what a tool does for a caller.
type work[In, Out any] func(ctx context.Context, c *client.Client, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error)

func add[In, Out any](s *sdk.Server, t *tools, name, description string, hints *sdk.ToolAnnotations, do work[In, Out]) {
	sdk.AddTool(s, &sdk.Tool{Name: name, Description: description, Annotations: hints}, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		var zero Out
		c, ctx, cancel, err := t.caller(ctx, req.Extra)
		if err == nil {
			defer cancel()
			var res *sdk.CallToolResult
			var out Out
			if res, out, err = do(ctx, c, req, in); err == nil {
				return res, out, nil
			}
			// A context that ends says why by its cause, which may be any error: the
			// protocol's own library takes io.EOF when its client is gone.
			if e := ctx.Err(); e != nil {
				err = e
			}
		}
		return nil, zero, t.refused(name, err)
	})
}

// inputError is a rule that an argument breaks.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

// refused is what a caller may see of an error: what the server told its client, or
// that nothing can be told.
func (t *tools) refused(tool string, err error) error {
	if e, ok := errors.AsType[*inputError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		text := e.Message
		if text == "" {
			text = "the request was refused"
		}
		if e.Code != "" {
			text = e.Code + ": " + text
		}
		if e.RetryAfter > 0 {
			text += fmt.Sprintf(" (try again in %d seconds)", int64(e.RetryAfter/time.Second))
		}
		return errors.New(text)
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("canceled")
	}
	t.fault(tool, err)
	return errors.New("internal: the call could not be carried out")
}
