package sandboxes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/strslice"
	"github.com/docker/docker/api/types/system"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// shape is what a container is made from, apart from whose it is. Two sandboxes of one
// shape may have each other's containers.
type shape struct {
	// Image is the image's id, not its name, which may move.
	Image   string
	User    string
	Memory  int64 // bytes
	CPUs    float64
	PIDs    int64
	Disk    int64 // bytes, 0 for the engine's own
	Network string
	Runtime string
	Volumes []backend.VolumeMount `json:",omitempty"`
	// Agent is the digest of the agent's program, empty without one.
	Agent  string
	Socket bool
	// Bare is an image that has the files already: a snapshot.
	Bare bool `json:",omitempty"`
}

func (s shape) digest() string {
	b, _ := json.Marshal(s)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// hold keeps a container without an agent alive: an interruptible sleep for ever.
var hold = []string{"/bin/sh", "-c", "while :; do sleep 3600 & wait $!; done"}

// Where things are in a container. All but the programs' directory is root's.
const (
	ownDir     = "/.caisson"
	recordFile = ownDir + "/record.json"
	socketDir  = ownDir + "/host"
	programDir = ownDir + "/plain"
)

// maxPIDs and so on: what an engine is asked for is never more than it has.
func clamp(cpus float64, info system.Info) float64 {
	if info.NCPU > 0 {
		cpus = min(cpus, float64(info.NCPU))
	}
	return max(cpus, 0.01)
}

// containerConfig is the whole of what the engine is asked for. A reader of it sees
// every privilege that a sandbox has: what is not written here, the engine's
// defaults keep away (host namespaces, devices, binds, its seccomp profile).
func containerConfig(s shape, info system.Info, labels map[string]string, socket string) (*container.Config, *container.HostConfig, *network.NetworkingConfig) {
	stop := 1
	main, caps := hold, []string(nil)
	if s.Agent != "" {
		main, caps = agentclient.HoldCommand(s.Agent), agentclient.Capabilities()
	}
	c := &container.Config{
		Image: s.Image, Labels: labels,
		// Root without capabilities, in a container that can get none.
		User:       "0:0",
		Entrypoint: strslice.StrSlice(main), Cmd: strslice.StrSlice{},
		WorkingDir: backend.DataDir,
		Hostname:   "sandbox",
		// An image's check would run as root, for ever.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL", StopTimeout: &stop,
		NetworkDisabled: s.Network == settings.NetworkNone,
	}
	init, pids := true, s.PIDs
	h := &container.HostConfig{
		NetworkMode: container.NetworkMode(s.Network),
		CapDrop:     strslice.StrSlice{"ALL"}, CapAdd: strslice.StrSlice(caps),
		SecurityOpt:  []string{"no-new-privileges"},
		Init:         &init,
		IpcMode:      container.IPCModePrivate,
		CgroupnsMode: container.CgroupnsModePrivate,
		Runtime:      s.Runtime,
		// Nothing that is printed goes to the engine's disk.
		LogConfig: container.LogConfig{Type: "none"},
		Resources: container.Resources{
			Memory: s.Memory, MemorySwap: s.Memory, // equal: no swap
			NanoCPUs:  int64(math.Round(clamp(s.CPUs, info) * 1e9)),
			PidsLimit: &pids,
			Ulimits:   []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}},
		},
	}
	if s.Disk > 0 {
		h.StorageOpt = map[string]string{"size": strconv.FormatInt(s.Disk, 10)}
	}
	if socket != "" {
		h.Mounts = append(h.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: socket, Target: socketDir,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	for _, v := range s.Volumes {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: v.Name, Target: v.Path, ReadOnly: v.ReadOnly})
	}
	return c, h, nil
}

// shapeOf says what container a spec needs. image is the id of the image.
func (c *config) shapeOf(spec backend.CreateSpec, image, agent string) (shape, error) {
	s := shape{
		Image: image, User: c.set.User, Memory: c.set.Memory << 20, CPUs: c.set.CPUs, PIDs: c.set.PIDs, Disk: c.set.Disk << 20,
		Network: c.set.Network, Runtime: c.set.Runtime, Agent: agent, Socket: agent != "" && c.set.Agent == settings.AgentSocket,
		Bare: spec.Snapshot != "",
	}
	no := func(kind backend.Kind, format string, args ...any) error {
		e := backend.Errorf(kind, "Create", format, args...)
		e.Provider, e.Subject = Name, backend.SubjectSandbox
		return e
	}
	n, l, t := spec.Network, spec.Limits, spec.Timeout
	switch {
	case len(n.Allow) > 0 || len(n.Deny) > 0 || len(n.Rules) > 0 || n.PublicPorts:
		return s, no(backend.KindUnsupported, "network: an engine has no rules, only none and bridge")
	case n.Mode == backend.NetworkOpen && c.set.Network != settings.NetworkBridge:
		return s, no(backend.KindUnsupported, "network: this config has none; the operator sets network: bridge to allow it")
	case len(spec.Entrypoint) > 0:
		return s, no(backend.KindUnsupported, "entrypoint: nothing but the backend's own runs by itself")
	case t.AutoResume:
		return s, no(backend.KindUnsupported, "timeout.auto_resume: traffic does not wake containers")
	case t.Mode == backend.TimeoutAfter && t.Duration < 0:
		return s, no(backend.KindInvalidRequest, "timeout.duration: must not be negative")
	case spec.Template != "" && spec.Snapshot != "":
		return s, no(backend.KindInvalidRequest, "template, snapshot: only one of them")
	case l.MemoryBytes < 0 || l.Processes < 0 || l.DiskBytes < 0 || !(l.CPUs >= 0):
		return s, no(backend.KindInvalidRequest, "limits: a limit is negative")
	}
	if n.Mode == backend.NetworkClosed {
		s.Network = settings.NetworkNone
	}
	// A session may have less than the config, never more.
	least := func(into *int64, asked int64) {
		if asked > 0 {
			*into = min(*into, asked)
		}
	}
	least(&s.Memory, max(l.MemoryBytes, min(l.MemoryBytes, 1)*(32<<20)))
	least(&s.PIDs, max(l.Processes, min(l.Processes, 1)*settings.MinPIDs))
	if l.CPUs > 0 {
		s.CPUs = min(s.CPUs, l.CPUs)
	}
	if l.DiskBytes > 0 && s.Disk > 0 {
		least(&s.Disk, l.DiskBytes)
	}
	volumes, err := c.mounts(spec.Volumes)
	if err != nil {
		return s, err
	}
	s.Volumes = volumes
	return s, nil
}

// labelsOf are the labels of a container.
func (b *Backend) labelsOf(c *config, s shape, more map[string]string) map[string]string {
	l := map[string]string{
		labelOwner: b.owner.installation, labelMaker: b.owner.maker, labelConfig: c.id,
		labelShape: s.digest(), labelUser: s.User, labelAgent: s.Agent,
		// An image may have labels of its own: a snapshot has.
		labelRecord: "", labelSession: "", labelTenant: "", labelHost: "", labelSocket: "", labelSnapshot: "",
	}
	maps.Copy(l, more)
	return l
}

// recordLabels are those of a container that is made for a session.
func recordLabels(r record) map[string]string {
	return map[string]string{
		labelRecord: string(r.encode()), labelSession: r.Metadata.Session, labelTenant: r.Metadata.Tenant,
		labelHost: r.Metadata.Deployment,
	}
}

// plain reports whether a spec asks for nothing that only a container made for it has.
func poolable(spec backend.CreateSpec) bool {
	return spec.Template == "" && spec.Snapshot == "" && len(spec.Volumes) == 0
}

func (s shape) String() string {
	return fmt.Sprintf("%s network=%s memory=%d cpus=%g pids=%d", s.Image, s.Network, s.Memory, s.CPUs, s.PIDs)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
