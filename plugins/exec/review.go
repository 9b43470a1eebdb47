package exec

import (
	"context"
	"strings"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/policy"
)

// review shows policies what became of a run. It changes nothing of it.
func (i *Interpreter) review(ctx context.Context, r policy.Request, session string, l *live, res backend.RunResult) []host.PolicyWarning {
	if !i.host.Reviews() {
		return nil
	}
	r.Session = session
	o := policy.Outcome{
		Request: r, Stop: string(res.Stop), ExitCode: int64(res.ExitCode), Signal: res.Signal,
		WallMS: res.Usage.Wall.Milliseconds(), CPUMS: res.Usage.CPU.Milliseconds(), PeakMemoryBytes: res.Usage.PeakMemoryBytes,
	}
	l.mu.Lock()
	o.Stdout, o.StdoutBytes = l.stdout.head(policy.MaxOutcomeText), max(res.StdoutBytes, l.stdout.total)
	o.Stderr, o.StderrBytes = l.stderr.head(policy.MaxOutcomeText), max(res.StderrBytes, l.stderr.total)
	l.mu.Unlock()
	for _, e := range res.Changed {
		o.Changed = append(o.Changed, policy.File{Name: strings.TrimPrefix(e.Path, backend.DataDir+"/"), Size: e.Size})
	}
	return i.host.Review(ctx, o)
}

// head is the beginning of what was kept.
func (o *output) head(n int) string {
	part := output{kept: o.kept[:min(n, len(o.kept))]}
	return part.text(len(o.kept) > n)
}
