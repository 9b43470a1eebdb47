// Package settings reads what an operator may set for one named config of the
// Docker backend, and finds the engine that it means. It opens no connection.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/languages"
)

// Networks that a container may have. Anything else, the engine's "host" and
// "container:" and every named network, would put programs beside other services.
const (
	NetworkNone   = "none"
	NetworkBridge = "bridge"
)

// When an image is fetched.
const (
	PullMissing = "missing"
	PullNever   = "never"
	PullAlways  = "always"
)

// How the agent in a container is spoken to.
const (
	// AgentExec is a stream through the engine, which works with any of them.
	AgentExec = "exec"
	// AgentSocket is a socket in a private directory that is mounted into the
	// container, the only mount; the engine has to be on this machine.
	AgentSocket = "socket"
	// AgentOff leaves everything to commands started by the engine.
	AgentOff = "off"
)

// Settings are one named config. Sizes are in MiB and times in seconds, as
// operators write them; see plugin.yaml for what each means.
type Settings struct {
	Enabled bool   `json:"enabled"`
	Host    string `json:"host"`
	TLSCA   string `json:"tls_ca"`
	TLSCert string `json:"tls_cert"`
	TLSKey  string `json:"tls_key"`

	Image     string            `json:"image"`
	Languages string            `json:"languages"` // of Image, in place of its label
	Images    map[string]string `json:"images"`
	Pull      string            `json:"pull"`
	User      string            `json:"user"`
	Memory    int64             `json:"memory_mib"`
	CPUs      float64           `json:"cpus"`
	PIDs      int64             `json:"pids"`
	Disk      int64             `json:"disk_mib"`
	Network   string            `json:"network"`
	Runtime   string            `json:"runtime"`
	Agent     string            `json:"agent"`
	Pool      int               `json:"pool"`
	Volumes   bool              `json:"volumes"`

	MaxSandboxes int   `json:"max_sandboxes"`
	MaxSnapshots int   `json:"max_snapshots"`
	IdleSeconds  int64 `json:"idle_seconds"`
	TTLSeconds   int64 `json:"ttl_seconds"`
}

// ErrOff says that nobody allowed this config to use an engine.
var ErrOff = errors.New("the Docker backend is off: set enabled: true to let it start containers on this engine")

// Default returns the settings of a config that says nothing, which is off.
func Default() Settings {
	return Settings{
		Image: "caisson/full:latest", Pull: PullMissing, User: "1000:1000",
		Memory: 2048, CPUs: 2, PIDs: 512, Network: NetworkNone, Agent: AgentExec, Pool: 2,
		MaxSnapshots: 100,
	}
}

// Parse reads a config strictly: unknown keys are errors, as is every value that
// breaks a rule, with the key named. It is the one place where the backend is
// switched on: without enabled: true it returns ErrOff, and nothing but its result
// leads to an engine.
func Parse(raw json.RawMessage) (Settings, error) {
	s := Default()
	if len(bytes.TrimSpace(raw)) > 0 {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			return Settings{}, err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return Settings{}, errors.New("more than one JSON value")
		}
	}
	if !s.Enabled {
		return Settings{}, ErrOff
	}
	if err := s.check(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// MinPIDs is the least bound of processes and threads that a sandbox works with: its
// agent and the engine's own helpers take some of them.
const MinPIDs = 64

// Sane upper ends: beyond them a number is a slip.
const (
	maxMiB     = 1 << 30 // a pebibyte
	maxCount   = 1 << 20
	maxSeconds = int64(10 * 365 * 24 * time.Hour / time.Second)
	// minMemory is what an engine accepts, with room for an interpreter.
	minMemory = 32
)

func (s Settings) check() error {
	for _, n := range []struct {
		key               string
		value, least, top int64
	}{
		{"memory_mib", s.Memory, minMemory, maxMiB},
		{"pids", s.PIDs, MinPIDs, maxCount},
		{"disk_mib", s.Disk, 0, maxMiB},
		{"pool", int64(s.Pool), 0, 64},
		{"max_sandboxes", int64(s.MaxSandboxes), 0, maxCount},
		{"max_snapshots", int64(s.MaxSnapshots), 0, maxCount},
		{"idle_seconds", s.IdleSeconds, 0, maxSeconds},
		{"ttl_seconds", s.TTLSeconds, 0, maxSeconds},
	} {
		if n.value < n.least || n.value > n.top {
			return fmt.Errorf("%s: must be between %d and %d", n.key, n.least, n.top)
		}
	}
	if !(s.CPUs >= 0.01 && s.CPUs <= 1024) {
		return errors.New("cpus: must be between 0.01 and 1024")
	}
	for _, w := range []struct {
		key, value string
		may        []string
	}{
		{"network", s.Network, []string{NetworkNone, NetworkBridge}},
		{"pull", s.Pull, []string{PullMissing, PullNever, PullAlways}},
		{"agent", s.Agent, []string{AgentExec, AgentSocket, AgentOff}},
	} {
		if !slices.Contains(w.may, w.value) {
			return fmt.Errorf("%s: must be one of %s", w.key, strings.Join(w.may, ", "))
		}
	}
	if _, _, err := s.IDs(); err != nil {
		return err
	}
	if !runtimeName.MatchString(s.Runtime) {
		return errors.New("runtime: is no name of a runtime")
	}
	if err := checkImage("image", s.Image); err != nil {
		return err
	}
	for name, image := range s.Images {
		if name == "" {
			return errors.New("images: a name is empty")
		}
		if err := checkImage("images", image); err != nil {
			return err
		}
	}
	if _, err := languages.Parse(s.Languages); err != nil {
		return fmt.Errorf("languages: %w", err)
	}
	return s.checkHost()
}

var (
	runtimeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,64}$`)
	imageName   = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9_./:@-]{0,254}$`)
)

func checkImage(key, image string) error {
	if !imageName.MatchString(image) {
		return fmt.Errorf("%s: is no reference of an image", key)
	}
	return nil
}

// IDs returns the user and group that programs run as. Names are not taken: an
// unknown user's group would be root's.
func (s Settings) IDs() (uid, gid int, err error) {
	u, g, ok := strings.Cut(s.User, ":")
	if ok {
		var uerr, gerr error
		uid, uerr = strconv.Atoi(u)
		gid, gerr = strconv.Atoi(g)
		if uerr == nil && gerr == nil && uid > 0 && gid > 0 && uid < 1<<31 && gid < 1<<31 {
			return uid, gid, nil
		}
	}
	return 0, 0, errors.New("user: must be UID:GID, two numbers above 0")
}

// ImageOf returns the image of a template by its name; the empty name is the
// default. Only images that the operator listed can be had.
func (s Settings) ImageOf(template string) (string, bool) {
	if template == "" {
		return s.Image, true
	}
	image, ok := s.Images[template]
	return image, ok
}
