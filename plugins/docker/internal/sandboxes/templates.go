package sandboxes

import (
	"context"
	"errors"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Templates are the images that the operator listed: they are built or fetched, never
// made by this backend, and never deleted by it.

// EnsureTemplate makes sure that the config's image is there, fetching it where the
// config says so.
func (b *Backend) EnsureTemplate(ctx context.Context, config string) (backend.Template, error) {
	c, err := b.config("EnsureTemplate", config)
	if err != nil {
		return backend.Template{}, err
	}
	return b.template(ctx, "EnsureTemplate", c, c.set.Pull == settings.PullAlways)
}

// ReplaceTemplate fetches the config's image anew. Sandboxes stay on what they have.
func (b *Backend) ReplaceTemplate(ctx context.Context, config string) (backend.Template, error) {
	const op = "ReplaceTemplate"
	c, err := b.config(op, config)
	if err != nil {
		return backend.Template{}, err
	}
	if c.set.Pull == settings.PullNever {
		return backend.Template{}, engine.Errorf(backend.KindUnsupported, op, backend.SubjectTemplate, "pull is never: build or load the image on the engine")
	}
	return b.template(ctx, op, c, true)
}

func (b *Backend) template(ctx context.Context, op string, c *config, fetch bool) (backend.Template, error) {
	t := backend.Template{ID: c.set.Image, Name: c.set.Image, Status: backend.TemplateReady}
	var failed error
	if fetch {
		failed = c.pull(ctx, c.set.Image)
	}
	_, err := c.findImage(ctx, c.set.Image)
	if engine.IsAbsent(err) && !fetch {
		_, err = c.imageID(ctx, op, c.set.Image)
		failed = err
	}
	switch {
	case ctx.Err() != nil:
		return backend.Template{}, ctx.Err()
	case err == nil && failed == nil:
		c.pool.hurry()
		return t, nil
	case err != nil && failed == nil:
		return backend.Template{}, engine.Fail(ctx, op, backend.SubjectTemplate, err)
	}
	failed = engine.Fail(ctx, op, backend.SubjectTemplate, failed)
	switch backend.KindOf(failed) {
	case backend.KindUnavailable, backend.KindTimeout, backend.KindAuthentication:
		return backend.Template{}, failed
	}
	var e *backend.Error
	if errors.As(failed, &e) {
		t.Error = e.Message
	}
	t.Status = backend.TemplateFailed
	if err == nil {
		t.Status = backend.TemplateReady // the old one is as good as it was
	}
	return t, nil
}

// ListTemplates returns the config's images, the default first.
func (b *Backend) ListTemplates(ctx context.Context, config string) ([]backend.Template, error) {
	const op = "ListTemplates"
	c, err := b.config(op, config)
	if err != nil {
		return nil, err
	}
	var out []backend.Template
	for _, name := range append([]string{""}, sortedKeys(c.set.Images)...) {
		image, _ := c.set.ImageOf(name)
		t := backend.Template{ID: name, Name: image, Status: backend.TemplateReady}
		if name == "" {
			t.ID = image
		}
		if _, err := c.findImage(ctx, image); engine.IsAbsent(err) {
			t.Status = backend.TemplateAbsent
		} else if err != nil {
			return nil, engine.Fail(ctx, op, backend.SubjectTemplate, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// DeleteSuperseded deletes nothing: images are the operator's.
func (b *Backend) DeleteSuperseded(_ context.Context, config string, _ []string) error {
	_, err := b.config("DeleteSuperseded", config)
	return err
}
