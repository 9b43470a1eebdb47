package exec

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/policy"
)

// A policy sees what became of a run, and can add a warning to the reply and nothing
// else.
func TestPoliciesSeeOutcomes(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var seen []policy.Outcome
	r.look = func(o policy.Outcome) []host.PolicyWarning {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, o)
		if strings.Contains(o.Stdout, "AKIA") {
			return []host.PolicyWarning{{Policy: "p", Code: "key_in_output", Reason: "the output holds an access key"}}
		}
		return nil
	}
	res := r.exec(alice, "echo AKIA; echo oops >&2; echo x > out.txt; exit 3", nil)
	if res.Stdout != "AKIA\n" || res.Code == nil || *res.Code != 3 ||
		!slices.Equal(res.PolicyWarnings, []PolicyWarning{{Policy: "p", Code: "key_in_output", Reason: "the output holds an access key"}}) {
		t.Errorf("%+v", res)
	}
	if res := r.exec(alice, "true", nil); res.PolicyWarnings != nil {
		t.Errorf("%+v", res)
	}
	long := r.exec(alice, `i=0; while [ $i -lt 9000 ]; do echo äöüäöüäöü; i=$((i+1)); done`, nil)
	if len(seen) != 3 {
		t.Fatalf("%d outcomes", len(seen))
	}
	o := seen[0]
	if o.Stop != "exit" || o.ExitCode != 3 || o.Stdout != "AKIA\n" || o.Stderr != "oops\n" || o.StdoutBytes != 5 || o.StderrBytes != 5 ||
		!slices.Equal(o.Changed, []policy.File{{Name: "out.txt", Size: 2}}) {
		t.Errorf("outcome %+v", o)
	}
	q := o.Request
	if q.Org != "acme" || q.User != "alice" || q.Language != "bash" || !strings.Contains(q.Code, "AKIA") || q.Session != res.SessionID && q.Session == "" || q.Limits.ChangedFiles != 100 {
		t.Errorf("request %+v", q)
	}
	// The head of a long stream, cut between two characters.
	o = seen[2]
	if n := len(o.Stdout); n > policy.MaxOutcomeText || n < policy.MaxOutcomeText-4 || !strings.HasPrefix(long.Stdout, o.Stdout) || o.StdoutBytes != 9000*19 {
		t.Errorf("%d bytes of %d", n, o.StdoutBytes)
	}
}
