package sandboxes

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/docker/docker/api/types/image"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// imageID returns the id of an image, fetching it where the config says so.
func (c *config) imageID(ctx context.Context, op, name string) (string, error) {
	id, err := c.findImage(ctx, name)
	if err == nil || !engine.IsAbsent(err) {
		return id, engine.Fail(ctx, op, backend.SubjectTemplate, err)
	}
	if c.set.Pull == settings.PullNever {
		return "", absentImage(op, name, "and pull is never: build or load it on the engine")
	}
	if err := c.pull(ctx, name); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		e := absentImage(op, name, "and cannot be fetched; build or load it on the engine")
		var typed *backend.Error
		if failed := engine.Fail(ctx, op, backend.SubjectTemplate, err); errors.As(failed, &typed) && typed.Kind != backend.KindInternal {
			e.Kind = typed.Kind
		}
		return "", e
	}
	id, err = c.findImage(ctx, name)
	return id, engine.Fail(ctx, op, backend.SubjectTemplate, err)
}

func absentImage(op, name, why string) *backend.Error {
	e := engine.Errorf(backend.KindNotFound, op, backend.SubjectTemplate, "the engine has no image %q %s", name, why)
	e.Plane = backend.PlaneControl
	return e
}

func (c *config) findImage(ctx context.Context, name string) (string, error) {
	ctx, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.Client(ctx).ImageInspect(ctx, name)
	if err != nil {
		return "", err
	}
	return got.ID, nil
}

// pull fetches an image and reads the engine's report to its end, where its failure
// is.
func (c *config) pull(ctx context.Context, name string) error {
	r, err := c.eng.Client(ctx).ImagePull(ctx, name, image.PullOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	dec := json.NewDecoder(r)
	for {
		var line struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}
