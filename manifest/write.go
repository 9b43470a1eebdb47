package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MarshalJSON writes the manifest in its canonical form. JSON is YAML, so that
// Parse reads it back to an equal Manifest.
func (m *Manifest) MarshalJSON() ([]byte, error) {
	type limits struct {
		Memory      int64  `json:"memory,omitempty"`
		Timeout     string `json:"timeout,omitempty"`
		Instances   int    `json:"instances,omitempty"`
		Fuel        int64  `json:"fuel,omitempty"`
		InputBytes  int64  `json:"input_bytes,omitempty"`
		OutputBytes int64  `json:"output_bytes,omitempty"`
	}
	out := struct {
		Schema        int             `json:"schema"`
		Name          string          `json:"name"`
		Version       string          `json:"version"`
		Kind          Kind            `json:"kind"`
		Runtime       Runtime         `json:"runtime"`
		Protocol      []int           `json:"protocol"`
		Path          string          `json:"path"`
		SHA256        string          `json:"sha256,omitempty"`
		Files         []string        `json:"files,omitempty"`
		Description   string          `json:"description,omitempty"`
		Licence       string          `json:"licence,omitempty"`
		Env           []string        `json:"env,omitempty"`
		Config        json.RawMessage `json:"config,omitempty"`
		Limits        limits          `json:"limits,omitzero"`
		Imports       []string        `json:"imports,omitempty"`
		Capabilities  []string        `json:"capabilities,omitempty"`
		Lacks         []string        `json:"lacks,omitempty"`
		ABI           ABI             `json:"abi,omitempty"`
		WASI          bool            `json:"wasi,omitempty"`
		Deterministic bool            `json:"deterministic,omitempty"`
		Needs         []string        `json:"needs,omitempty"`
		Hooks         []string        `json:"hooks,omitempty"`
		StateSchema   []string        `json:"state_schema,omitempty"`
		StartTimeout  string          `json:"start_timeout,omitempty"`
		Reattach      string          `json:"reattach,omitempty"`
	}{
		m.Schema, m.Name, m.Version, m.Kind, m.Runtime, m.Protocol, m.Path, m.SHA256, m.Files,
		m.Description, m.Licence, m.Env, m.Config,
		limits{
			m.Limits.Memory, "", m.Limits.Instances, m.Limits.Fuel,
			m.Limits.InputBytes, m.Limits.OutputBytes,
		},
		m.Imports, m.Capabilities, m.Lacks, m.ABI, m.WASI, m.Deterministic, m.Needs, m.Hooks, m.StateSchema, "", "",
	}
	if m.Limits.Timeout != 0 {
		out.Limits.Timeout = formatDuration(m.Limits.Timeout)
	}
	if m.Reattach != 0 {
		out.Reattach = formatDuration(m.Reattach)
	}
	if m.StartTimeout != 0 {
		out.StartTimeout = formatDuration(m.StartTimeout)
	}
	return json.Marshal(out)
}

// Pin returns the text of a manifest with sha256 set to digest and everything
// else, comments included, as it was. The text must be a valid manifest, with or
// without a digest, and have one key per line.
func Pin(src []byte, digest string) ([]byte, error) {
	return rewrite(src, "sha256", digest, func(m *Manifest) { m.SHA256 = digest })
}

// SetVersion is Pin for the version.
func SetVersion(src []byte, version string) ([]byte, error) {
	return rewrite(src, "version", version, func(m *Manifest) { m.Version = version })
}

// rewrite gives a top-level key a value, and proves that it changed nothing else
// by reading the result and comparing.
func rewrite(src []byte, key, value string, apply func(*Manifest)) ([]byte, error) {
	want, err := Parse(FileName, src)
	if err != nil {
		return nil, err
	}
	root := parseTree(&report{}, src)
	if root.flow {
		return nil, fmt.Errorf("set %s: the manifest must have one key per line", key)
	}
	lines := strings.SplitAfter(string(src), "\n")
	if i, p := pairOf(root, key); i >= 0 {
		line := &lines[p.value.pos.line-1]
		*line = replaceScalar(*line, p.value.pos.col, value)
	} else {
		// Not there yet: put it on a line of its own behind the artifact's path.
		_, p := pairOf(root, "path")
		line := &lines[p.value.pos.line-1]
		ending := "\n"
		if strings.HasSuffix(*line, "\r\n") {
			ending = "\r\n"
		}
		*line = strings.TrimRight(*line, "\r\n") + ending +
			strings.Repeat(" ", p.pos.col-1) + fmt.Sprintf("%s: %q", key, value) + ending
	}
	out := []byte(strings.Join(lines, ""))
	got, err := Parse(FileName, out)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", key, err)
	}
	apply(want)
	if !equal(got, want) {
		return nil, fmt.Errorf("set %s: write %s and path on one line each", key, key)
	}
	return out, nil
}

func pairOf(root *node, key string) (int, pair) {
	for i, p := range root.pairs {
		if p.key == key {
			return i, p
		}
	}
	return -1, pair{}
}

// replaceScalar replaces the plain or quoted scalar that begins at a column of
// a line.
func replaceScalar(line string, column int, value string) string {
	runes := []rune(line)
	start := min(column-1, len(runes))
	head, rest := string(runes[:start]), string(runes[start:])
	end := len(strings.TrimRight(rest, " \t\r\n"))
	if i := strings.Index(rest, " #"); i >= 0 {
		end = len(strings.TrimRight(rest[:i], " \t"))
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		if i := strings.IndexByte(rest[1:], rest[0]); i >= 0 {
			end = i + 2
		}
	}
	return head + fmt.Sprintf("%q", value) + rest[end:]
}

func equal(a, b *Manifest) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errors.Join(errX, errY) == nil && bytes.Equal(x, y)
}
