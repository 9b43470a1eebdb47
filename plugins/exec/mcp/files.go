package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
	"github.com/caisson-run/caisson/sdk/client"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type uploadInput struct {
	Name      string  `json:"name" jsonschema:"the path at which programs find it, relative to their working directory"`
	Text      *string `json:"text,omitempty" jsonschema:"what it holds, as text"`
	Base64    *string `json:"base64,omitempty" jsonschema:"what it holds, in base64, in the place of text"`
	SessionID string  `json:"session_id,omitempty" jsonschema:"the session to put it into; a new one without it"`
}

type uploadOutput struct {
	SessionID string `json:"session_id"`
	File      file   `json:"file"`
}

func (t *tools) uploadFile(ctx context.Context, c *client.Client, _ *sdk.CallToolRequest, in uploadInput) (*sdk.CallToolResult, uploadOutput, error) {
	var content io.Reader
	switch {
	case in.Name == "" || strings.ContainsFunc(in.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, uploadOutput{}, &inputError{"name must not be empty or have control characters"}
	case (in.Text == nil) == (in.Base64 == nil):
		return nil, uploadOutput{}, &inputError{"one of text and base64 is needed"}
	case in.Text != nil:
		content = strings.NewReader(*in.Text)
	default:
		b, err := base64.StdEncoding.DecodeString(*in.Base64)
		if err != nil {
			return nil, uploadOutput{}, &inputError{"base64 is no base64 with padding"}
		}
		content = bytes.NewReader(b)
	}
	f, err := c.Put(ctx, in.SessionID, in.Name, content)
	if err != nil {
		return nil, uploadOutput{}, err
	}
	return nil, uploadOutput{SessionID: f.SessionID, File: file{ID: f.ID, Name: f.Name, Size: f.Size}}, nil
}

type listInput struct {
	SessionID string `json:"session_id"`
	Skip      int    `json:"skip,omitempty" jsonschema:"how many files to pass over, for those behind the first answer"`
}

type listOutput struct {
	Files []file `json:"files"`
	Total int    `json:"total" jsonschema:"how many there are; none also where the session does not exist"`
}

func (t *tools) listFiles(ctx context.Context, c *client.Client, _ *sdk.CallToolRequest, in listInput) (*sdk.CallToolResult, listOutput, error) {
	if err := session(in.SessionID); err != nil {
		return nil, listOutput{}, err
	}
	if in.Skip < 0 {
		return nil, listOutput{}, &inputError{"skip must not be negative"}
	}
	list, err := c.List(ctx, in.SessionID)
	if err != nil {
		return nil, listOutput{}, err
	}
	out := listOutput{Files: []file{}, Total: len(list)}
	list = list[min(in.Skip, len(list)):]
	for _, f := range list[:min(maxListed, len(list))] {
		out.Files = append(out.Files, file{ID: f.ID, Name: f.Name, Size: f.Size, Type: f.ContentType})
	}
	return nil, out, nil
}

type readInput struct {
	SessionID string `json:"session_id"`
	File      string `json:"file" jsonschema:"its id or its path"`
	Offset    int64  `json:"offset,omitempty" jsonschema:"the byte to begin at"`
	Length    int64  `json:"length,omitempty" jsonschema:"how many bytes are wanted at most"`
}

type readOutput struct {
	Type   string `json:"type"`
	Size   int64  `json:"size" jsonschema:"of the whole file, in bytes"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next,omitempty" jsonschema:"the offset of what follows; absent at the end"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty" jsonschema:"what is no text"`
	Image  bool   `json:"image,omitempty" jsonschema:"the file is shown as an image beside this"`
}

func (t *tools) readFile(ctx context.Context, c *client.Client, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, readOutput, error) {
	if err := session(in.SessionID); err != nil {
		return nil, readOutput{}, err
	}
	if in.File == "" || in.Offset < 0 || in.Length < 0 {
		return nil, readOutput{}, &inputError{"file must not be empty, offset and length not negative"}
	}
	length := int64(t.output)
	if in.Length > 0 {
		length = min(in.Length, length)
	}
	x, err := c.Open(ctx, in.SessionID, in.File, in.Offset, length)
	if err != nil {
		return nil, readOutput{}, err
	}
	defer x.Close()
	b, err := io.ReadAll(io.LimitReader(x, length)) // a server may send more than was asked for
	if err != nil {
		return nil, readOutput{}, err
	}
	out := readOutput{Type: x.Type, Size: x.Size, Offset: x.Offset}
	whole := out.Offset == 0 && int64(len(b)) == out.Size
	if whole && shown(out.Type) {
		out.Image = true
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: b, MIMEType: out.Type}}}, out, nil
	}
	if s := runes.Whole(string(b)); utf8.ValidString(s) && (len(s) > 0 || len(b) == 0) {
		out.Text, b = s, b[:len(s)]
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString(b)
	}
	if next := out.Offset + int64(len(b)); next < out.Size {
		out.Next = next
	}
	return nil, out, nil
}

// shown are images that models look at.
func shown(contentType string) bool {
	switch contentType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// session refuses what would be another path: ids have no slash.
func session(id string) error {
	if id == "" || strings.ContainsAny(id, "/?#%") || id == "." || id == ".." {
		return &inputError{"session_id must be the id of a session"}
	}
	return nil
}
