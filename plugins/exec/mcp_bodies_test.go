package exec

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/mcp"
)

func (r *rig) message(key string, body io.Reader) answer {
	q := r.request("POST", key, mcp.Path, body)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	q.Header.Set("Mcp-Protocol-Version", "2025-03-26")
	return r.do(q)
}

// A body of many values, which cost far more than their bytes, is refused before the
// protocol's library has it. A call with all that may be in one is not.
func TestMCPValues(t *testing.T) {
	r := newMCP(t)
	ping := `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for name, body := range map[string]string{
		"elements": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code","arguments":{"args":[` + strings.Repeat(`"",`, 40_000) + `""]}}}`,
		"members":  `{"a":{` + strings.Repeat(`"x":0,`, 40_000) + `"x":0},"jsonrpc":"2.0","id":2,"method":"ping"}`,
		"messages": `[` + strings.Repeat(ping+",", 12_000) + ping + `]`,
		"objects":  `{"a":[` + strings.Repeat(`{}`, 40_000),
	} {
		e := into[obj](t, r.message(alice, strings.NewReader(body)), 400)
		if e["code"] != "invalid_request" || e["error"] != "the body has more than 32768 values" {
			t.Errorf("%s: %v", name, e)
		}
	}
	s := r.connect(alice, "2025-06-18")
	var files []obj
	var args []string
	for k := range maxFiles {
		files = append(files, obj{"session_id": "AAAAAAAAAAAAAAAAAAAAA", "file": "f", "name": fmt.Sprint(k)})
	}
	for range maxArgs {
		args = append(args, ",{[")
	}
	got, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": "echo $#" + strings.Repeat(",", 1<<17), "args": args, "files": files})
	if fault != "" || !strings.HasPrefix(got.Stdout, fmt.Sprint(maxArgs)) {
		t.Errorf("%s, %q", fault, got.Stdout)
	}
}
