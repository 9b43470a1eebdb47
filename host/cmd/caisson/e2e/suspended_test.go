package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// A program that waits for a tool stays on the version that runs it while another
// takes the place of that, which does not wait for it, and ends there.
func TestSwapLeavesSuspendedPrograms(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)
	ask := func(body string) (status, token, id, stdout string) {
		t.Helper()
		r := s.must(t, http.MethodPost, "/v1/exec/programmatic", s.key, body)
		var got struct {
			Status string `json:"status"`
			Token  string `json:"continuation_token"`
			Calls  []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
			Stdout string `json:"stdout"`
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		for _, c := range got.Calls {
			id = c.ID
		}
		return got.Status, got.Token, id, got.Stdout
	}
	status, token, id, _ := ask(`{"lang":"bash","code":"x=before; r=$(weather '{}'); echo $x $r","tools":[{"name":"weather"}]}`)
	if status != "tool_call_required" {
		t.Fatalf("status %q", status)
	}
	out := p.run(t, "", append(p.flags("plugin", "swap", "--json", "--watch", "0s"), "wasm", nextVersion(t, "wasm"))...)
	var r host.SwapReport
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || r.Outcome != host.SwapDone || r.InFlight != 1 {
		t.Errorf("%v, %+v, want one program still there; %s", err, r, out.stderr)
	}
	if r.Drain > r.Prepare+patience/10 {
		t.Errorf("the swap waited %v", r.Drain)
	}
	status, _, _, stdout := ask(fmt.Sprintf(`{"continuation_token":%q,"tool_results":[{"call_id":%q,"result":"sunny"}]}`, token, id))
	if status != "completed" || !strings.HasPrefix(stdout, "before ") || !strings.Contains(stdout, "sunny") {
		t.Errorf("it went on with %q: %q", status, stdout)
	}
	s.stop(t)
}
