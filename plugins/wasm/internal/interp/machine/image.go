package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// image is a booted interpreter.
type image struct {
	memory  *region.Image
	globals []uint64 // in the order of Config.Globals
	state   []byte
}

// Boot is an instance that is being booted. Its run has empty directories, no input,
// no limit of fuel, and its output in Stdout and Stderr.
type Boot struct {
	*Instance
	// Context is for calls of the instance.
	Context context.Context
	// World may be given a clock.
	World          *guest.World
	Stdout, Stderr bytes.Buffer
}

// boot makes the image.
func (m *Machine) boot(ctx context.Context) (_ *image, err error) {
	roots, remove, err := bootDirs()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &Boot{}
	r, err := guest.New(ctx, guest.Program{
		Argv: m.cfg.Argv, Env: m.cfg.Env, Stdout: &b.Stdout, Stderr: &b.Stderr,
		Data: guest.Mount{Root: roots[0]}, Tmp: guest.Mount{Root: roots[1]}, Entry: roots[2],
	}, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if b.Instance, err = m.Start(r, m.cfg.Argv, m.cfg.Env); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Instance.Close(ctx)) }()
	b.Context, b.World = r.Context(ctx), b.Instance.world
	i := &image{}
	if i.state, err = m.cfg.Boot(b.Context, b); err != nil {
		return nil, err
	}
	for _, name := range m.cfg.Globals {
		g, err := b.global(name)
		if err != nil {
			return nil, err
		}
		i.globals = append(i.globals, g.Get())
	}
	mem, _ := b.Memory().Read(0, b.Memory().Size())
	i.memory = region.NewImage(mem)
	b.next = i.memory
	return i, nil
}

// global finds a global of an image.
func (i *Instance) global(name string) (api.MutableGlobal, error) {
	g, ok := i.ExportedGlobal(name).(api.MutableGlobal)
	if !ok {
		return nil, fmt.Errorf("machine: the module exports no mutable global %q", name)
	}
	return g, nil
}

// restore gives a new instance the image's content.
func (i *image) restore(inst *Instance, cow bool) error {
	mem := inst.Memory()
	if size := int64(mem.Size()); size < i.memory.Bytes() {
		if _, ok := mem.Grow(uint32((i.memory.Bytes() - size) / region.PageBytes)); !ok {
			return errors.New("machine: the image does not fit the memory")
		}
	}
	if err := inst.region.Load(i.memory, cow); err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	for n, name := range inst.machine.cfg.Globals {
		g, err := inst.global(name)
		if err != nil {
			return err
		}
		g.Set(i.globals[n])
	}
	return nil
}

// bootDirs makes the directories that a boot sees, empty and for itself.
func bootDirs() (roots [3]*os.Root, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "caisson-boot-")
	if err != nil {
		return roots, nil, err
	}
	remove = func() error {
		for _, r := range roots {
			if r != nil {
				_ = r.Close()
			}
		}
		return os.RemoveAll(dir)
	}
	for i := range roots {
		sub := fmt.Sprint(dir, "/", i)
		if err = os.Mkdir(sub, 0o700); err == nil {
			roots[i], err = os.OpenRoot(sub)
		}
		if err != nil {
			return roots, nil, errors.Join(err, remove())
		}
	}
	return roots, remove, nil
}
