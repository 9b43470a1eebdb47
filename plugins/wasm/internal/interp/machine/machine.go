package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// Host is what the interpreters of a process have in common.
type Host struct {
	// Regions is where memory comes from. Its owner closes it after the machines.
	Regions *region.Pool
	// Cache is where code and images are kept.
	Cache codecache.Cache
	// Parked is how many instances of each interpreter wait for runs; 0 for none.
	Parked int
	// Idle is how long no instance of an interpreter must have been used until most
	// of what is kept for it is given up; 0 means DefaultIdle.
	Idle time.Duration
	// Choose decides how an image is loaded; nil measures.
	Choose func(*region.Pool, *region.Image) region.Choice
}

// Config describes how the instances of one interpreter are made.
type Config struct {
	Host
	// Module is from [guest.Load], with its data segments dropped if it has any. The
	// caller closes it after the Machine.
	Module *codecache.Module
	// Layout is that of the worlds; nil means one without libraries.
	Layout *guest.Layout

	// Boot brings a new instance to where its image is taken, and returns what the
	// interpreter needs to know of it. Without it there is no image: only Start works.
	Boot func(ctx context.Context, b *Boot) (state []byte, err error)
	// Argv is the command line of the boot and of the instances from the image; Env is
	// the environment of both.
	Argv []string
	Env  map[string]string
	// Globals names the exported globals, mutable, that belong to the image, like the
	// stack pointer.
	Globals []string
	// Identity stands for what else the image depends on, such as the library's files.
	Identity []byte
}

// DefaultIdle is how long a machine without runs keeps what it has ready.
const DefaultIdle = time.Minute

// idleParked is how many parked instances are left to an idle machine.
const idleParked = 1

// Machine makes instances of one interpreter. It is safe for concurrent use.
type Machine struct {
	cfg      Config
	image    *image // nil without one
	choice   region.Choice
	cached   bool
	cacheErr error

	mu     sync.Mutex
	parked []*Instance // the last was made last
	busy   bool        // an instance was used since the keeper last looked

	wake   chan struct{} // asks the keeper to look
	cancel context.CancelFunc
	done   chan struct{} // closed when the keeper has ended
}

// New loads the image or boots one, and begins to park instances. Close ends it. An
// error is that of the boot, and there is no Machine then.
func New(ctx context.Context, cfg Config) (*Machine, error) {
	if cfg.Layout == nil {
		cfg.Layout = guest.NewLayout()
	}
	if cfg.Idle == 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Choose == nil {
		cfg.Choose = (*region.Pool).Measure
	}
	m := &Machine{cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if cfg.Boot != nil {
		if err := m.prepare(ctx); err != nil {
			return nil, err
		}
		m.choice = cfg.Choose(cfg.Regions, m.image.memory)
	}
	life, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.keep(life)
	m.kick()
	return m, nil
}

// State is what the boot returned. It must not be changed.
func (m *Machine) State() []byte { return m.image.state }

// ImageBytes is the size of a memory with the image, 0 without one.
func (m *Machine) ImageBytes() int64 {
	if m.image == nil {
		return 0
	}
	return m.image.memory.Bytes()
}

// Cached tells that the image came from the disk, CacheErr why it could not be kept
// there; that speaks to the operator and may name the directory.
func (m *Machine) Cached() bool    { return m.cached }
func (m *Machine) CacheErr() error { return m.cacheErr }

// Choice is how the image is loaded.
func (m *Machine) Choice() region.Choice { return m.choice }

// Parked is how many instances wait.
func (m *Machine) Parked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parked)
}

// Close gives everything back. No instance may be in use.
func (m *Machine) Close(ctx context.Context) error {
	m.cancel()
	<-m.done
	err := m.drop(ctx, 0)
	if m.image != nil {
		m.cfg.Regions.Trim(m.image.memory)
		err = errors.Join(err, m.image.memory.Close())
	}
	return err
}

// Instance is an instance of the interpreter with the memory that it runs in.
type Instance struct {
	api.Module

	machine *Machine
	region  *region.Region
	next    *region.Image // what the region will be needed for
	world   *guest.World
}

// Take returns an instance with the content of the image, for a run: one that is
// parked, or else a new one. The caller closes it. Errors are the host's fault.
func (m *Machine) Take(r *guest.Run) (*Instance, error) {
	if m.image == nil {
		return nil, errors.New("machine: there is no image")
	}
	inst := m.unpark(guest.MemoryLimit(r.Program))
	m.used()
	if inst == nil {
		var err error
		if inst, err = m.fill(guest.MemoryLimit(r.Program)); err != nil {
			return nil, err
		}
	}
	inst.bind(r)
	return inst, nil
}

// Start returns a new instance for a run that starts from nothing: its memory has
// the module's data and nothing else. The caller closes it.
func (m *Machine) Start(r *guest.Run, argv []string, env map[string]string) (*Instance, error) {
	inst, err := m.new(nil, guest.MemoryLimit(r.Program), argv, env)
	if err != nil {
		return nil, err
	}
	if m.image != nil {
		inst.next = m.image.memory
	}
	inst.bind(r)
	if err := inst.writeData(); err != nil {
		return nil, errors.Join(err, inst.release(context.Background()))
	}
	return inst, nil
}

// unpark takes the instance that was parked last, if its memory may become as large
// as limit.
func (m *Machine) unpark(limit int64) *Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.parked)
	if n == 0 || limit > m.cfg.Regions.Reserve() {
		return nil
	}
	inst := m.parked[n-1]
	m.parked = m.parked[:n-1]
	return inst
}

// fill makes an instance with the content of the image, not bound to a run.
func (m *Machine) fill(limit int64) (*Instance, error) {
	inst, err := m.new(m.image.memory, limit, m.cfg.Argv, m.cfg.Env)
	if err != nil {
		return nil, err
	}
	if err := m.image.restore(inst, m.choice.COW); err != nil {
		// Not Close: the keeper would be told that the machine is used, and try again
		// at once.
		return nil, errors.Join(err, inst.release(context.Background()))
	}
	return inst, nil
}

// new makes an instance whose memory is ready to be loaded with i, or zero.
func (m *Machine) new(i *region.Image, limit int64, argv []string, env map[string]string) (*Instance, error) {
	reg, err := m.cfg.Regions.Get(i, limit)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	inst := &Instance{machine: m, region: reg, next: i, world: guest.NewWorld(m.cfg.Layout)}
	if inst.Module, err = m.instantiate(inst.world.ModuleConfig(argv, env), reg); err != nil {
		m.cfg.Regions.Put(reg, i)
		return nil, fmt.Errorf("machine: instantiate: %w", err)
	}
	return inst, nil
}

// instantiate runs no code of the module.
func (m *Machine) instantiate(cfg wazero.ModuleConfig, reg *region.Region) (api.Module, error) {
	ctx := experimental.WithMemoryAllocator(context.Background(), reg)
	return m.cfg.Module.Runtime.InstantiateModule(ctx, m.cfg.Module.Code, cfg)
}

// bind makes the instance that of a run.
func (i *Instance) bind(r *guest.Run) {
	r.Attach(i.region)
	i.world.Bind(r)
}

// Close ends the instance and gives its memory back. No code of it may be running.
func (i *Instance) Close(ctx context.Context) error {
	err := i.release(ctx)
	i.machine.used()
	return err
}

func (i *Instance) release(ctx context.Context) error {
	err := i.Module.Close(context.WithoutCancel(ctx))
	i.machine.cfg.Regions.Put(i.region, i.next)
	return err
}

// writeData gives a new instance the data segments of its module.
func (i *Instance) writeData() error {
	for _, s := range i.machine.cfg.Module.Data {
		if !i.Memory().Write(s.Offset, s.Data) {
			return errors.New("machine: the data of the module does not fit its memory")
		}
	}
	return nil
}
