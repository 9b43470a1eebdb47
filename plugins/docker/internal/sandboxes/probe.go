package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/languages"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// presumed is what the plugin offers before an image was looked at.
func presumed() []backend.LanguageSupport { return languages.Known() }

// probe looks at an engine and an image, and changes neither.
func (b *Backend) probe(ctx context.Context, c *config) (backend.ProbeReport, error) {
	const op = "Probe"
	no := func(err error) (backend.ProbeReport, error) {
		var e *backend.Error
		if ctx.Err() != nil || !errors.As(err, &e) {
			return backend.ProbeReport{}, err
		}
		if backend.Retriable(e) {
			// What the image runs has not changed: a host goes on with what it knows, and
			// whoever runs something is told that the engine is down.
			return backend.ProbeReport{Detail: e.Message}, nil
		}
		return backend.ProbeReport{Detail: e.Message, Languages: languages.Missing(e.Message, nil)}, nil
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
	got, err := c.eng.Client(short).ImageInspect(short, c.set.Image)
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
	var labels map[string]string
	if got.Config != nil {
		labels = got.Config.Labels
	}
	detail = append(detail, fmt.Sprintf("image %q of %d MB", c.set.Image, got.Size/1e6))
	return backend.ProbeReport{
		OK: true, Detail: strings.Join(detail, "; "), Languages: languages.Of(c.set.Image, c.set.Languages, labels),
	}, nil
}
