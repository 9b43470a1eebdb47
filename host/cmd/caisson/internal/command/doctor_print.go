package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/caisson-run/caisson/sdk/backend"
)

// limitReport is one limit of runs, as text for people.
type limitReport struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Max     string `json:"max"`
}

// limits asks h for what a run gets that wants nothing, and everything.
func limits(h *host.Host, t session.Target) []limitReport {
	const all = 1 << 50 // more than any bound
	d := h.Limits(t, backend.Limits{})
	m := h.Limits(t, backend.Limits{
		Wall: all, CPU: all, MemoryBytes: all, CPUs: all, Processes: all,
		StdoutBytes: all, StderrBytes: all, DiskBytes: all, DiskFiles: all,
	})
	duration := func(v int64) string { return time.Duration(v).String() }
	count := func(v int64) string { return strconv.FormatInt(v, 10) }
	row := func(name string, deflt, most int64, format func(int64) string) limitReport {
		show := func(v int64) string {
			if v <= 0 || v >= all {
				return leftToBackend
			}
			return format(v)
		}
		return limitReport{name, show(deflt), show(most)}
	}
	cpus := func(v float64) string {
		if v <= 0 || v >= all {
			return leftToBackend
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return []limitReport{
		row("wall", int64(d.Wall), int64(m.Wall), duration),
		{"cpu", cpuText(d, all), cpuText(m, all)},
		row("memory", d.MemoryBytes, m.MemoryBytes, sizeText),
		{"cpus", cpus(d.CPUs), cpus(m.CPUs)},
		row("processes", d.Processes, m.Processes, count),
		row("stdout", d.StdoutBytes, m.StdoutBytes, sizeText),
		row("stderr", d.StderrBytes, m.StderrBytes, sizeText),
		row("disk", d.DiskBytes, m.DiskBytes, sizeText),
		row("files", d.DiskFiles, m.DiskFiles, count),
	}
}

// leftToBackend stands where neither the configuration nor what the backend says
// of itself bounds something: the backend's own default applies, which it does
// not tell.
const leftToBackend = "not set (left to the backend)"

// cpuText is what a run may use of processor time. Where nothing bounds it, the
// other limits do.
func cpuText(l backend.Limits, all int64) string {
	switch {
	case l.CPU > 0 && int64(l.CPU) < all:
		return l.CPU.String()
	case l.Wall > 0 && l.CPUs > 0 && l.CPUs < float64(all) && float64(l.Wall)*l.CPUs < float64(all):
		return fmt.Sprintf("%v (wall × cpus)", time.Duration(float64(l.Wall)*l.CPUs))
	default:
		return leftToBackend
	}
}

// settingReport is one setting of the deployment that is in force.
type settingReport struct {
	// Name is the key in the configuration.
	Name  string `json:"name"`
	Value string `json:"value"`
}

func settingsInForce(s settings, o exec.Options) []settingReport {
	clocks := s.Sessions.Clocks()
	return []settingReport{
		{"listen", s.Listen},
		{"drain", time.Duration(s.Drain).String()},
		{"sessions.ttl", clocks.TTL.String()},
		{"sessions.idle", clocks.Idle.String()},
		{"sessions.unused_upload", clocks.UnusedUpload.String()},
		{"requests.max_bytes", sizeText(o.BodyBytes)},
		{"uploads.max_bytes", sizeText(o.UploadBytes)},
		{"uploads.max_files", strconv.Itoa(o.UploadFiles)},
		{"uploads.tenant_files", strconv.FormatInt(o.QuotaFiles, 10)},
		{"uploads.tenant_bytes", sizeText(o.QuotaBytes)},
		{"artifacts.max_files", strconv.Itoa(o.ChangedFiles)},
		{"artifacts.max_file_bytes", sizeText(o.ChangedFileBytes)},
		{"artifacts.max_depth", strconv.Itoa(o.ChangedDepth)},
		{"queue.running", strconv.Itoa(o.Running)},
		{"queue.waiting", strconv.Itoa(o.Waiting)},
		{"queue.tenant_running", strconv.Itoa(o.TenantRunning)},
		{"queue.tenant_share", strconv.Itoa(o.TenantShare)},
		{"queue.tenant_waiting", strconv.Itoa(o.TenantWaiting)},
		{"queue.max_wait", o.MaxWait.String()},
		{"programs.live", strconv.Itoa(o.Programs)},
		{"programs.tenant_live", strconv.Itoa(o.TenantPrograms)},
		{"programs.ttl", o.ProgramTTL.String()},
	}
}

// sizeText writes a size in the largest unit that divides it.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// print writes the report for people.
func (r *report) print(w io.Writer) error {
	t := newTable(w)
	t.row("caisson " + r.Version)
	t.row()
	for _, c := range r.Checks {
		t.row(string(c.State), c.Name, oneLine(c.Detail))
		if c.Fix != "" {
			t.row("", "", "→ "+c.Fix)
		}
	}
	if len(r.Backends) > 0 {
		t.row()
		t.row("BACKEND", "PLUGIN", "STATE", "DETAIL")
		for _, b := range r.Backends {
			id := b.ID
			if b.Default {
				id += " (default)"
			}
			if b.Tenant != "" {
				id += " (of " + b.Tenant + ")"
			}
			t.row(id, b.Plugin, string(b.State), oneLine(b.Detail))
			if b.Probe != "" {
				t.row("", "", "", oneLine(b.Probe))
			}
		}
	}
	for _, b := range r.Backends {
		if len(b.Languages) == 0 {
			continue
		}
		t.row()
		t.row("LANGUAGE", "NAME", "RUNS ON "+b.ID, "WHY NOT")
		for _, l := range b.Languages {
			t.row(l.ID, l.Name, dash(l.runsOn()), dash(oneLine(l.Missing)))
		}
	}
	if len(r.Limits) > 0 {
		t.row()
		t.row("LIMIT", "DEFAULT", "MAXIMUM")
		for _, l := range r.Limits {
			t.row(l.Name, l.Default, l.Max)
		}
	}
	if len(r.Settings) > 0 {
		t.row()
		t.row("SETTING", "IN FORCE")
		for _, x := range r.Settings {
			t.row(x.Name, x.Value)
		}
	}
	return t.flush()
}

// runsOn is the toolchain with its version, which may name it again.
func (l languageReport) runsOn() string {
	switch {
	case l.Missing != "":
		return ""
	case strings.HasPrefix(strings.ToLower(l.Version), strings.ToLower(l.Toolchain)):
		return l.Version
	default:
		return strings.TrimSpace(l.Toolchain + " " + l.Version)
	}
}

// oneLine keeps joined errors from breaking the table.
func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
