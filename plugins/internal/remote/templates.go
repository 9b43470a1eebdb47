package remote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Built is a template as a provider lists it.
type Built struct {
	ID string
	// Names include aliases; a team's namespace and a tag may be part of one.
	Names  []string
	Status backend.TemplateStatus
	// Error is the provider's own.
	Error string
}

// called reports whether one of the names is name, whatever its namespace and tag.
func (t Built) called(name string) bool {
	return t.ID == name || slices.ContainsFunc(t.Names, func(n string) bool { return bare(n) == name })
}

func bare(name string) string {
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Builder builds the standard template of a config.
type Builder interface {
	// Name is what the standard template is called.
	Name() string
	// Templates lists all of the account, all pages.
	Templates(ctx context.Context, op string) ([]Built, error)
	// Build starts building a template under a name, which is a new one or that of
	// old, whose builds failed.
	Build(ctx context.Context, op, name string, old *Built) (backend.Template, error)
}

var buildName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,99}$`)

// CheckBuild checks what every provider's build says: a name that leaves room for
// those of replacements, and an image.
func CheckBuild(name, image string) error {
	switch {
	case !buildName.MatchString(name):
		return errors.New("build.name: must have 1 to 100 of the characters a-z, 0-9, - and _")
	case image == "":
		return errors.New("build.image: is required")
	}
	return nil
}

// catalog returns a config and its builder.
func (b *Backend) catalog(op, id string) (*config, Builder, error) {
	c, err := b.config(op, id)
	if err != nil {
		return nil, nil, err
	}
	builder := c.Dialect.Builder()
	if builder == nil {
		return nil, nil, b.fail(op, backend.KindUnsupported, "the config says nothing about building templates: set build.image")
	}
	return c, builder, nil
}

// EnsureTemplate implements backend.TemplateCatalog.
func (b *Backend) EnsureTemplate(ctx context.Context, id string) (backend.Template, error) {
	const op = "EnsureTemplate"
	_, builder, err := b.catalog(op, id)
	if err != nil {
		return backend.Template{}, err
	}
	all, err := builder.Templates(ctx, op)
	if err != nil {
		return backend.Template{}, err
	}
	var old *Built
	if i := slices.IndexFunc(all, func(t Built) bool { return t.called(builder.Name()) }); i >= 0 {
		old = &all[i]
		if old.Status == backend.TemplateReady || old.Status == backend.TemplateBuilding {
			return backend.Template{ID: old.ID, Name: builder.Name(), Status: old.Status}, nil
		}
	}
	return builder.Build(ctx, op, builder.Name(), old)
}

// ReplaceTemplate implements backend.TemplateCatalog: what is built has a name of its
// own, so that sandboxes start from the old one until the config names the new one.
func (b *Backend) ReplaceTemplate(ctx context.Context, id string) (backend.Template, error) {
	const op = "ReplaceTemplate"
	_, builder, err := b.catalog(op, id)
	if err != nil {
		return backend.Template{}, err
	}
	name := fmt.Sprintf("%s-r%s", builder.Name(), strconv.FormatInt(b.p.Now().UnixMilli(), 36))
	return builder.Build(ctx, op, name, nil)
}

// ListTemplates implements backend.TemplateCatalog. Ours are those with the standard
// name and its replacements.
func (b *Backend) ListTemplates(ctx context.Context, id string) ([]backend.Template, error) {
	const op = "ListTemplates"
	_, builder, err := b.catalog(op, id)
	if err != nil {
		return nil, err
	}
	all, err := builder.Templates(ctx, op)
	if err != nil {
		return nil, err
	}
	var found []backend.Template
	for _, t := range all {
		if name, ok := standard(builder.Name(), t); ok {
			found = append(found, backend.Template{ID: t.ID, Name: name, Status: t.Status, Error: t.Error})
		}
	}
	return found, nil
}

// standard reports whether a template is one of ours, and its name.
func standard(name string, t Built) (string, bool) {
	for _, n := range t.Names {
		rest, ok := strings.CutPrefix(bare(n), name)
		if ok && (rest == "" || isReplacement(rest)) {
			return bare(n), true
		}
	}
	return "", false
}

func isReplacement(suffix string) bool {
	at, ok := strings.CutPrefix(suffix, "-r")
	if !ok {
		return false
	}
	_, err := strconv.ParseInt(at, 36, 64)
	return err == nil && at[0] != '-' && at[0] != '+'
}

// DeleteSuperseded implements backend.TemplateCatalog. What the config itself names is
// kept too. Templates in use are left, as errors beside the others' success.
func (b *Backend) DeleteSuperseded(ctx context.Context, id string, keep []string) error {
	const op = "DeleteSuperseded"
	c, builder, err := b.catalog(op, id)
	if err != nil {
		return err
	}
	all, err := builder.Templates(ctx, op)
	if err != nil {
		return err
	}
	kept := append(slices.Clone(keep), c.TemplateID, bare(c.TemplateID))
	var errs []error
	for _, t := range all {
		name, ours := standard(builder.Name(), t)
		if !ours || slices.Contains(kept, t.ID) || slices.Contains(kept, name) || slices.ContainsFunc(kept, t.called) {
			continue
		}
		if err := c.API.DropTemplate(ctx, op, fault.Template, t.ID); err != nil && !backend.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("template %s: %w", t.ID, err))
		}
	}
	return errors.Join(errs...)
}
