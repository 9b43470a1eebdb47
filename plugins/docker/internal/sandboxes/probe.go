package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// labelLanguages is what an image says it runs: LANGUAGE=TOOLCHAIN@VERSION, apart by
// spaces. Those of plugins/docker/images prove it when they are built.
const labelLanguages = "run.caisson.languages"

// full are the toolchains of the full image, which stand in where an image says
// nothing.
var full = []backend.LanguageSupport{
	{ID: "py", Toolchain: "cpython"},
	{ID: "js", Toolchain: "node"},
	{ID: "ts", Toolchain: "esbuild"},
	{ID: "c", Toolchain: "gcc"},
	{ID: "cpp", Toolchain: "gcc"},
	{ID: "java", Toolchain: "openjdk"},
	{ID: "php", Toolchain: "php"},
	{ID: "rs", Toolchain: "rustc"},
	{ID: "go", Toolchain: "go"},
	{ID: "d", Toolchain: "ldc2"},
	{ID: "f90", Toolchain: "gfortran"},
	{ID: "r", Toolchain: "rscript"},
	{ID: "bash", Toolchain: "bash"},
	{ID: "rb", Toolchain: "ruby"},
	{ID: "sql", Toolchain: "sqlite"},
}

// presumed is what the plugin offers before an image was looked at.
func presumed() []backend.LanguageSupport { return slices.Clone(full) }

// parseLanguages reads an image's label: what it says, and what else there could be as
// missing. Words that are none are left out: labels are anybody's text.
func parseLanguages(label string) []backend.LanguageSupport {
	var out []backend.LanguageSupport
	for _, word := range strings.Fields(label) {
		id, what, ok := strings.Cut(word, "=")
		toolchain, version, _ := strings.Cut(what, "@")
		if ok && id != "" && toolchain != "" && len(word) <= 100 && len(out) < 100 {
			out = append(out, backend.LanguageSupport{ID: id, Toolchain: toolchain, Version: version})
		}
	}
	for _, l := range full {
		if !slices.ContainsFunc(out, func(o backend.LanguageSupport) bool { return o.ID == l.ID }) {
			l.Missing = "the image has none; use one that does"
			out = append(out, l)
		}
	}
	return out
}

// probe looks at an engine and an image, and changes neither.
func (b *Backend) probe(ctx context.Context, c *config) (backend.ProbeReport, error) {
	const op = "Probe"
	no := func(err error) (backend.ProbeReport, error) {
		var e *backend.Error
		if ctx.Err() != nil || !errors.As(err, &e) {
			return backend.ProbeReport{}, err
		}
		return backend.ProbeReport{Detail: e.Message}, nil
	}
	info, err := c.eng.Info(ctx)
	if err != nil {
		return no(engine.Fail(ctx, op, backend.SubjectConfig, err))
	}
	detail := []string{fmt.Sprintf("engine %s, %s, %d processors", info.ServerVersion, goArch(info.Architecture), info.NCPU)}
	if c.set.Runtime != "" {
		if _, ok := info.Runtimes[c.set.Runtime]; !ok {
			return no(engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectConfig, "runtime: the engine has no %q", c.set.Runtime))
		}
		detail = append(detail, "runtime "+c.set.Runtime)
	}
	if !slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		detail = append(detail, "the engine filters no system calls: its kernel has no seccomp")
	}
	how := "agent over " + c.set.Agent
	if c.set.Agent == settings.AgentOff {
		how = "without the agent"
	} else if _, _, err := b.agents.find(info.Architecture); err != nil {
		how = "without the agent: " + err.Error()
	}
	detail = append(detail, how)
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.API.ImageInspect(short, c.set.Image)
	if engine.IsAbsent(err) {
		if c.set.Pull == settings.PullNever {
			return no(absentImage(op, c.set.Image, "and pull is never: build or load it on the engine"))
		}
		detail = append(detail, fmt.Sprintf("image %q is not there yet", c.set.Image))
		return backend.ProbeReport{OK: true, Detail: strings.Join(detail, "; "), Languages: presumed()}, nil
	}
	if err != nil {
		return no(engine.Fail(ctx, op, backend.SubjectTemplate, err))
	}
	report := backend.ProbeReport{OK: true, Languages: presumed()}
	if label, ok := imageLabel(got, labelLanguages); ok {
		report.Languages = parseLanguages(label)
	} else {
		detail = append(detail, "the image does not say what it runs")
	}
	report.Detail = strings.Join(detail, "; ")
	return report, nil
}
