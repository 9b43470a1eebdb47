package exec

import (
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// TestVerdict: what a client is told of every way in which a run ends.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		res             backend.RunResult
		cut             bool
		status, message string
		marked          string // the line on stderr
	}{
		"exit":             {res: backend.RunResult{Stop: backend.StopExit, ExitCode: 1}},
		"timeout":          {backend.RunResult{Stop: backend.StopTimeout, ExitCode: -1}, false, "TO", textTimeout, textTimeout},
		"cpu":              {backend.RunResult{Stop: backend.StopCPU, ExitCode: -1}, false, "TO", textTimeout, textTimeout},
		"memory":           {backend.RunResult{Stop: backend.StopMemory, ExitCode: -1}, false, "SG", textMemory, textMemory},
		"disk, failed":     {backend.RunResult{Stop: backend.StopDisk, ExitCode: 1}, false, "", textDisk, textDisk},
		"disk, stopped":    {backend.RunResult{Stop: backend.StopDisk, ExitCode: -1}, false, "SG", textDisk, textDisk},
		"disk, signal":     {backend.RunResult{Stop: backend.StopDisk, ExitCode: 153, Signal: "SIGXFSZ"}, false, "SG", textDisk, textDisk},
		"disk, output cut": {backend.RunResult{Stop: backend.StopDisk, ExitCode: 1}, true, "OL", textStdout, textStdout},
		"output":           {backend.RunResult{Stop: backend.StopOutput, ExitCode: -1}, false, "OL", textStdout, textStdout},
		"lost":             {backend.RunResult{Stop: backend.StopLost, ExitCode: -1}, false, "XX", textLost, textLost},
		"canceled":         {backend.RunResult{Stop: backend.StopCanceled, ExitCode: -1}, false, "XX", textLost, textLost},
	} {
		status, message := verdict(c.res, c.cut, false)
		if status != c.status || message != c.message {
			t.Errorf("%s: %q, %q; want %q, %q", name, status, message, c.status, c.message)
		}
		if got := marker(c.res, message, false); got != c.marked {
			t.Errorf("%s: stderr says %q, want %q", name, got, c.marked)
		}
	}
}
