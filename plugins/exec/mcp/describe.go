package mcp

import (
	"context"
	"encoding/json"

	"github.com/caisson-run/caisson/plugins/exec/openapi"
	"github.com/caisson-run/caisson/sdk/client"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type describeInput struct {
	Operation string `json:"operation,omitempty" jsonschema:"the operation to describe; all are listed without it"`
}

type describeOutput struct {
	Languages  []language  `json:"languages,omitempty"`
	Operations []operation `json:"operations,omitempty"`
	// Operation is a part of the OpenAPI document.
	Operation map[string]any `json:"operation,omitempty" jsonschema:"the operation as the OpenAPI document has it, references resolved"`
}

type language struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Version string   `json:"version,omitempty"`
}

type operation struct {
	ID      string `json:"id"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Summary string `json:"summary"`
	Tool    string `json:"tool,omitempty" jsonschema:"the tool that calls it"`
}

// calls are the operations behind the tools.
var calls = map[string]string{
	"runCode": "run_code", "uploadFile": "upload_file", "listFiles": "list_files", "downloadFile": "read_file", "listLanguages": "describe",
}

func (t *tools) describe(ctx context.Context, c *client.Client, _ *sdk.CallToolRequest, in describeInput) (*sdk.CallToolResult, describeOutput, error) {
	var out describeOutput
	for _, op := range openapi.Operations() {
		if in.Operation == op.ID {
			return nil, out, json.Unmarshal(op.Detail, &out.Operation)
		}
		out.Operations = append(out.Operations, operation{ID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Tool: calls[op.ID]})
	}
	if in.Operation != "" {
		return nil, describeOutput{}, &inputError{"there is no such operation; describe without one lists them"}
	}
	list, err := c.Languages(ctx)
	if err != nil {
		return nil, describeOutput{}, err
	}
	for _, l := range list {
		if l.Available {
			out.Languages = append(out.Languages, language{ID: l.ID, Name: l.Name, Aliases: l.Aliases, Version: l.Version})
		}
	}
	return nil, out, nil
}
