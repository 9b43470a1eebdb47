package sandboxes

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/docker/docker/api/types/volume"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

const labelVolume = "caisson.volume" // the name without the config's prefix

func (c *config) volume(op, name string) (string, error) {
	switch {
	case !c.set.Volumes:
		return "", engine.Errorf(backend.KindUnsupported, op, backend.SubjectVolume, "volumes: the operator has not switched them on for this config")
	case !volumeName.MatchString(name):
		return "", engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectVolume, "volume: a name has 1 to 64 letters, digits, dots, - and _")
	}
	return namePrefix(c.id) + "v_" + name, nil
}

// reserved are the places where a volume would hide what a sandbox is made of.
var reserved = []string{"/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var", ownDir, backend.TmpDir}

// mounts checks the volumes of a spec and names them as the engine does.
func (c *config) mounts(asked []backend.VolumeMount) ([]backend.VolumeMount, error) {
	const op = "Create"
	var out []backend.VolumeMount
	for _, v := range asked {
		name, err := c.volume(op, v.Name)
		if err != nil {
			return nil, err
		}
		bad := backend.CheckPath(v.Path) != nil || v.Path == "/" || v.Path == backend.DataDir || backend.Within(v.Path, backend.DataDir)
		for _, dir := range reserved {
			bad = bad || backend.Within(dir, v.Path)
		}
		if bad {
			return nil, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectVolume, "volumes: %q is no place for one", shorten(v.Path))
		}
		out = append(out, backend.VolumeMount{Name: name, Path: v.Path, ReadOnly: v.ReadOnly})
	}
	return out, nil
}

// haveVolumes refuses volumes that nobody made: the engine would make them up.
func (b *Backend) haveVolumes(ctx context.Context, op string, c *config, mounts []backend.VolumeMount) error {
	for _, v := range mounts {
		short, cancel := engine.Short(ctx)
		_, err := c.eng.Client(short).VolumeInspect(short, v.Name)
		cancel()
		if engine.IsAbsent(err) {
			e := engine.Errorf(backend.KindNotFound, op, backend.SubjectVolume, "no volume %q", strings.TrimPrefix(v.Name, namePrefix(c.id)+"v_"))
			e.Plane = backend.PlaneControl
			return e
		}
		if err != nil {
			return engine.Fail(ctx, op, backend.SubjectVolume, err)
		}
	}
	return nil
}

// EnsureVolume makes a volume unless it exists.
func (b *Backend) EnsureVolume(ctx context.Context, config, name string) (backend.Volume, error) {
	const op = "EnsureVolume"
	c, err := b.config(op, config)
	if err != nil {
		return backend.Volume{}, err
	}
	full, err := c.volume(op, name)
	if err != nil {
		return backend.Volume{}, err
	}
	short, cancel := engine.Short(ctx)
	defer cancel()
	// Creating one that exists returns it.
	v, err := c.eng.Client(short).VolumeCreate(short, volume.CreateOptions{
		Name: full, Labels: map[string]string{labelConfig: c.id, labelVolume: name, labelOwner: b.owner.installation},
	})
	if err != nil {
		return backend.Volume{}, engine.Fail(ctx, op, backend.SubjectVolume, err)
	}
	return backend.Volume{Name: name, Created: volumeTime(v.CreatedAt)}, nil
}

func volumeTime(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// ListVolumes returns the config's volumes.
func (b *Backend) ListVolumes(ctx context.Context, config string) ([]backend.Volume, error) {
	const op = "ListVolumes"
	c, err := b.config(op, config)
	if err != nil {
		return nil, err
	}
	if _, err := c.volume(op, "any"); err != nil {
		return nil, err
	}
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.Client(short).VolumeList(short, volume.ListOptions{Filters: c.filter()})
	if err != nil {
		return nil, engine.Fail(ctx, op, backend.SubjectVolume, err)
	}
	var out []backend.Volume
	for _, v := range got.Volumes {
		if name := v.Labels[labelVolume]; v.Name == namePrefix(c.id)+"v_"+name {
			out = append(out, backend.Volume{Name: name, Created: volumeTime(v.CreatedAt)})
		}
	}
	return out, nil
}

// DeleteVolume forgets a volume; one that a sandbox has is in use.
func (b *Backend) DeleteVolume(ctx context.Context, config, name string) error {
	const op = "DeleteVolume"
	c, err := b.config(op, config)
	if err != nil {
		return err
	}
	full, err := c.volume(op, name)
	if err != nil {
		return err
	}
	short, cancel := engine.Short(ctx)
	defer cancel()
	err = c.eng.Client(short).VolumeRemove(short, full, false)
	if engine.IsAbsent(err) {
		return nil
	}
	return engine.Fail(ctx, op, backend.SubjectVolume, err)
}
