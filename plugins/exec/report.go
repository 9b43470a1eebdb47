package exec

import (
	"fmt"
	"strings"

	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Texts that clients know (docs/wire.md).
const (
	textTimeout = "Time limit exceeded"
	textMemory  = "Out of memory"
	textDisk    = "No space left in the sandbox"
	textStdout  = "stdout length exceeded"
	textStderr  = "stderr length exceeded"
	textLost    = "The sandbox was lost while the program ran"
)

// report turns what a backend says into what a client is told.
func (i *Interpreter) report(sessionID string, l *live, in *inputs, res backend.RunResult) *CodeResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	cutOut := res.StdoutTruncated || l.stdout.total > int64(len(l.stdout.kept))
	cutErr := res.StderrTruncated || l.stderr.total > int64(len(l.stderr.kept))
	l.ended(cutOut, cutErr)
	out := &CodeResult{
		SessionID: sessionID,
		Stdout:    l.stdout.text(cutOut),
		WallTime:  res.Usage.Wall.Milliseconds(),
	}
	if res.Stop == backend.StopExit || res.Stop == backend.StopDisk && res.ExitCode >= 0 {
		out.Code = &res.ExitCode
	}
	if res.Signal != "" {
		out.Signal = &res.Signal
	}
	status, message := verdict(res, cutOut, cutErr)
	if status != "" {
		out.Status = &status
	}
	if message != "" {
		out.Message = &message
	}

	program := l.stderr.text(cutErr)
	var after []string
	if cutOut {
		after = append(after, truncation("stdout", l.stdout, res.StdoutBytes))
	}
	if cutErr {
		after = append(after, truncation("stderr", l.stderr, res.StderrBytes))
	}
	if m := marker(res, message, out.Stdout == "" && program == ""); m != "" {
		after = append(after, "[sandbox] "+m)
	}
	if unusable := i.artifacts(out, in, res); len(unusable) > 0 {
		after = append(after, "[sandbox] Files not handed over because of their names: "+listNames(unusable))
	}
	if res.CollectFailed {
		after = append(after, "[sandbox] Changed files could not be found")
	}
	out.Stderr = stderr(in.preface(), program, after)
	return out
}

// verdict is status and message: nothing for a program that ended by itself
// with all its output kept.
func verdict(res backend.RunResult, cutOut, cutErr bool) (status, message string) {
	switch {
	case res.Stop == backend.StopTimeout, res.Stop == backend.StopCPU:
		return "TO", textTimeout
	case res.Stop == backend.StopMemory:
		return "SG", textMemory
	case res.Stop == backend.StopDisk && (res.ExitCode < 0 || res.Signal != ""):
		return "SG", textDisk
	case res.Stop == backend.StopLost, res.Stop == backend.StopCanceled:
		return "XX", textLost
	case res.Signal != "":
		return "SG", "Terminated by " + res.Signal
	case cutOut, res.Stop == backend.StopOutput:
		return "OL", textStdout
	case cutErr:
		return "OL", textStderr
	case res.Stop == backend.StopDisk:
		return "", textDisk // it ended by itself, and this is why
	}
	return "", ""
}

// marker is the line that says on stderr what would otherwise look like success:
// clients do not show the exit status (docs/wire.md).
func marker(res backend.RunResult, message string, silent bool) string {
	switch {
	case res.Stop != backend.StopExit || res.Signal != "":
		return message
	case res.ExitCode != 0 && silent:
		return fmt.Sprintf("Exited with code %d and no output", res.ExitCode)
	}
	return ""
}

func truncation(stream string, o output, total int64) string {
	return fmt.Sprintf("[%s truncated: kept %d of %d bytes]", stream, len(o.kept), max(o.total, total))
}

// stderr is what the program wrote between lines of ours.
func stderr(before, program string, after []string) string {
	s := before + program
	if len(after) == 0 {
		return s
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s + strings.Join(after, "\n") + "\n"
}

// artifacts fills in the files: made and changed ones first, then inputs that
// are as they were (docs/wire.md). It returns the names of made ones that
// could not come back as an input: those are not announced.
func (i *Interpreter) artifacts(out *CodeResult, in *inputs, res backend.RunResult) (unusable []string) {
	out.Files = []CodeFile{}
	byName := make(map[string]*input, len(in.found))
	for _, x := range in.found {
		if !x.missing {
			byName[x.name] = x
		}
	}
	touched := make(map[string]bool)
	for _, e := range res.Changed {
		name, ok := names.Relative(e.Path)
		if !ok {
			continue
		}
		x := byName[name]
		if x != nil && x.shared {
			continue // the copy is scratch
		}
		touched[name] = true
		shown, err := names.Announce(name)
		if err != nil {
			unusable = append(unusable, name)
			continue
		}
		f := CodeFile{
			ID: i.fileID(out.SessionID, name, e), Name: shown,
			StorageSessionID: out.SessionID, SessionID: out.SessionID,
			Size: e.Size, ContentType: contentType(name),
		}
		if x != nil && !x.changed {
			f.ModifiedFrom = &FileOrigin{ID: x.ref.ID, StorageSessionID: x.source}
		}
		out.Files = append(out.Files, f)
	}
	delivered := len(out.Files)
	for _, p := range res.Deleted {
		name, ok := names.Relative(p)
		if x := byName[name]; !ok || x != nil && x.shared {
			continue
		}
		touched[name] = true
		if shown, err := names.Announce(name); err == nil {
			out.DeletedFiles = append(out.DeletedFiles, shown)
		}
	}
	for _, x := range in.found {
		if x.missing || x.changed || touched[x.name] {
			continue
		}
		out.Files = append(out.Files, inherited(x))
	}
	if failed := res.Skipped + len(unusable); failed > 0 || res.CollectFailed {
		d := &ArtifactDelivery{Code: "artifact_delivery_failed", Status: "partial", Delivered: delivered, Failed: max(failed, 1)}
		if d.Attempted = d.Delivered + d.Failed; delivered == 0 {
			d.Status = "failed"
		}
		out.ArtifactDelivery = d
	}
	return unusable
}

// listNames shows the first few names.
func listNames(all []string) string {
	const most = 10
	var shown []string
	for _, n := range all[:min(most, len(all))] {
		shown = append(shown, names.Show(n))
	}
	if more := len(all) - most; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}

// inherited echoes an input as it came: clients know it by these very members.
func inherited(x *input) CodeFile {
	f := x.ref
	f.StorageSessionID, f.SessionID = x.source, x.source
	f.Size, f.ContentType = x.size, contentType(x.name)
	f.Inherited, f.ModifiedFrom = true, nil
	return f
}
