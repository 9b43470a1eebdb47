package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/client"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type runInput struct {
	Language  string      `json:"language" jsonschema:"the language, such as py, js, ts or bash; describe lists them"`
	Code      string      `json:"code" jsonschema:"the program"`
	Args      []string    `json:"args,omitempty" jsonschema:"its arguments"`
	SessionID string      `json:"session_id,omitempty" jsonschema:"the session to go on in; a new one without it"`
	Files     []inputFile `json:"files,omitempty" jsonschema:"files of sessions to put into the working directory"`
	TimeoutMS int64       `json:"timeout_ms,omitempty" jsonschema:"milliseconds that the program may run"`
}

type inputFile struct {
	SessionID string `json:"session_id" jsonschema:"the session that has the file"`
	File      string `json:"file" jsonschema:"its id or its path"`
	Name      string `json:"name" jsonschema:"the path at which the program finds it"`
}

type runOutput struct {
	SessionID string `json:"session_id" jsonschema:"pass it to go on with these files"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Cut       bool   `json:"cut,omitempty" jsonschema:"the middle of stdout or stderr was left out"`
	ExitCode  *int   `json:"exit_code" jsonschema:"null when the program did not end by itself"`
	Status    string `json:"status,omitempty" jsonschema:"TO out of time, SG killed, OL output cut, XX lost"`
	Message   string `json:"message,omitempty"`
	WallMS    int64  `json:"wall_ms"`
	Files     []file `json:"files" jsonschema:"files that the program made or changed"`
	MoreFiles int    `json:"more_files,omitempty" jsonschema:"how many of them are left out here; list_files has all"`
}

type file struct {
	ID   string `json:"id"`
	Name string `json:"name" jsonschema:"its path"`
	Size int64  `json:"size" jsonschema:"in bytes"`
	Type string `json:"type,omitempty"`
}

// maxListed bounds the files of one answer.
const maxListed = 200

func (t *tools) runCode(ctx context.Context, c *client.Client, req *sdk.CallToolRequest, in runInput) (*sdk.CallToolResult, runOutput, error) {
	run := client.Run{Lang: in.Language, Code: in.Code, Args: in.Args, SessionID: in.SessionID, Timeout: in.TimeoutMS}
	for _, f := range in.Files {
		run.Files = append(run.Files, client.File{ID: f.File, Name: f.Name, StorageSessionID: f.SessionID})
	}
	done := progress(ctx, req)
	res, err := c.Run(ctx, run)
	done()
	if err != nil {
		return nil, runOutput{}, err
	}
	out := runOutput{
		SessionID: res.SessionID, ExitCode: res.Code, Status: text(res.Status), Message: text(res.Message),
		WallMS: res.WallTime, Files: []file{},
	}
	var cutOut, cutErr bool
	out.Stdout, cutOut = abridged(res.Stdout, t.output)
	out.Stderr, cutErr = abridged(res.Stderr, t.output)
	out.Cut = cutOut || cutErr
	for _, f := range res.Files {
		switch {
		case f.Inherited:
		case len(out.Files) == maxListed:
			out.MoreFiles++
		default:
			out.Files = append(out.Files, file{ID: f.ID, Name: f.Name, Size: f.Size, Type: f.ContentType})
		}
	}
	return nil, out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// progressEvery is the time between two notices that a run goes on, which also keep
// the connection from looking idle.
const progressEvery = 5 * time.Second

// progress tells a client that asked for it that the call is still under way, until
// the function that it returns is called.
func progress(ctx context.Context, req *sdk.CallToolRequest) func() {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		start, tick := time.Now(), time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: time.Since(start).Seconds(), Message: "the program runs",
			})
			if err != nil {
				return // nobody listens any more
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
