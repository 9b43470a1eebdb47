package host

import (
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// The most that is kept in memory, whichever is reached first. The bytes are those
// of programs and arguments.
const (
	maxDecisions     = 1000
	maxDecisionBytes = 16 << 20
)

// Decision is one request as the policy chain judged it, or its outcome as the chain
// saw it. It holds what policies may ask for, the program and its output included:
// whoever reads it reads callers' code.
type Decision struct {
	At time.Time `json:"at"`
	// Hook is when the chain was asked: "admit" or "result".
	Hook    string         `json:"hook"`
	Request policy.Request `json:"request"`
	// Outcome is set at "result". Its own request is Request, and not repeated.
	Outcome *policy.Outcome `json:"outcome,omitempty"`
	// Allowed is whether the request went on.
	Allowed bool `json:"allowed"`
	// Rulings are those of the policies that were asked, in order.
	Rulings []PolicyRuling `json:"rulings"`
}

// PolicyRuling is what one policy said.
type PolicyRuling struct {
	Policy  string        `json:"policy"`
	Version PluginVersion `json:"version"`
	Mode    PolicyMode    `json:"mode"`
	// Limits are those that the policy was shown.
	Limits policy.Limits `json:"limits"`
	// Verdict is what it said; Error is set instead when it failed.
	Verdict policy.Verdict `json:"verdict,omitzero"`
	// Warnings are what it remarked on the outcome, at "result".
	Warnings []policy.Remark `json:"warnings,omitempty"`
	Error    string          `json:"error,omitempty"`

	took time.Duration // at "admit"
}

func (d *Decision) append(p boundPolicy, r PolicyRuling, err error) {
	r.Policy, r.Version, r.Mode = p.name, p.version, p.mode.orDeny()
	if err != nil {
		r.Error = err.Error()
	}
	d.Rulings = append(d.Rulings, r)
}

func (d *Decision) bytes() int {
	n := len(d.Request.Code)
	for _, a := range d.Request.Args {
		n += len(a)
	}
	if d.Outcome != nil {
		n += len(d.Outcome.Stdout) + len(d.Outcome.Stderr)
	}
	return n
}

// decisions keeps the latest. The zero value keeps them in memory only. It is safe
// for concurrent use.
type decisions struct {
	mu     sync.Mutex
	latest []*Decision // oldest first
	held   int
	file   *decisionFile // nil keeps none
}

// openDecisions also appends every decision to a file, one JSON object a line; an
// empty path names none.
func openDecisions(path string, log hclog.Logger) (*decisions, error) {
	d := &decisions{}
	if path == "" {
		return d, nil
	}
	var err error
	d.file, err = openDecisionFile(path, log)
	return d, err
}

func (ds *decisions) record(d *Decision) {
	if ds == nil {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.latest = append(ds.latest, d)
	ds.held += d.bytes()
	drop := 0
	for len(ds.latest)-drop > maxDecisions || ds.held > maxDecisionBytes {
		ds.held -= ds.latest[drop].bytes()
		ds.latest[drop] = nil
		drop++
	}
	ds.latest = ds.latest[drop:]
	ds.file.write(d)
}

// last returns the newest n, oldest first; what keeps the file from being written is
// told beside them.
func (ds *decisions) last(n int) ([]*Decision, error) {
	if ds == nil {
		return nil, nil
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	from := max(0, len(ds.latest)-n)
	return append([]*Decision(nil), ds.latest[from:]...), ds.file.failed()
}

// reopen is for a file that was moved away, or could not be written.
func (ds *decisions) reopen() {
	if ds == nil {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.file.reopen()
}

func (ds *decisions) close() error {
	if ds == nil {
		return nil
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.file.close()
}

// Decisions returns the newest n decisions of the policy chain, oldest first. Up to
// 1000 are kept, of at most 16 MiB of code. The error says why the file of
// decisions, if there is one, is not written any more. They must not be changed.
func (h *Host) Decisions(n int) ([]*Decision, error) { return h.decisions.last(n) }
