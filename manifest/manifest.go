package manifest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// FileName is the name of the manifest in a plugin's directory.
	FileName = "plugin.yaml"
	// MaxSize bounds a manifest, in bytes.
	MaxSize = 256 << 10
	// MaxConfigSize bounds what ValidateConfig and CompleteConfig read, in bytes.
	MaxConfigSize = 64 << 10
	// SchemaVersion is the version of the file format that this package reads.
	SchemaVersion = 1
)

// Kind is the contract that a plugin implements. It decides the runtime: there
// is one for each kind.
type Kind string

const (
	KindBackend  Kind = "backend"  // runs sandboxes; a process
	KindPolicy   Kind = "policy"   // admits or denies runs; a WebAssembly module
	KindLanguage Kind = "language" // plans how programs are run; a WebAssembly module
)

// Runtime is how a plugin runs.
type Runtime string

const (
	RuntimeProcess Runtime = "process" // a subprocess, over gRPC
	RuntimeWASM    Runtime = "wasm"    // a WebAssembly module inside the host
)

// ABI is how the host calls a WebAssembly module.
type ABI string

const (
	ABIv1  ABI = "v1"  // alloc and handle, see docs/plugin-authors.md; the default
	ABIOPA ABI = "opa" // a module made by "opa build -t wasm"; policies only
)

// Manifest is a plugin.yaml that has been read and found right. Zero values of
// optional members mean that the file does not say.
type Manifest struct {
	// Schema is the version of the file format, SchemaVersion.
	Schema int
	// Name is the plugin's id: [a-z][a-z0-9-]{0,62}.
	Name string
	// Version is semantic, without a leading v: 1.2.3, 1.2.3-rc.1+build.
	Version string
	Kind    Kind
	Runtime Runtime
	// Protocol lists the versions of the kind's contract that the plugin speaks,
	// ascending. See Negotiate.
	Protocol []int
	// Path is where the artifact is: relative to the plugin directory, with
	// forward slashes, never leaving it.
	Path string
	// SHA256 pins the artifact: 64 lower-case hexadecimal digits, or empty.
	SHA256 string
	// Files are what lies beside the artifact and belongs to the plugin: files and
	// directories, as paths like Path. SHA256 does not pin them.
	Files       []string
	Description string // one line
	Licence     string // SPDX expression

	// Env names the variables of the host's environment that a process may see;
	// nothing else passes.
	Env []string
	// Config is the JSON Schema (draft 2020-12) of the plugin's configuration, as
	// written; nil accepts only an empty configuration. See ValidateConfig.
	Config json.RawMessage
	Limits Limits
	// Imports names the functions of host_v1 that a module may import.
	Imports []string
	// Capabilities are the most that a backend may claim.
	Capabilities []string
	// Lacks lists what the contract asks of every backend and this one cannot do for
	// what it is; it is held to refusing that.
	Lacks []string
	// ABI is how a module is called; never empty for modules.
	ABI ABI
	// WASI allows a module to import WASI preview 1.
	WASI bool
	// Deterministic asks for a fixed clock and fixed randomness.
	Deterministic bool
	// Needs lists the parts of a request and its outcome that a policy is shown
	// besides their heads: code, args, files, output.
	Needs []string
	// Hooks lists when a policy is asked, HookAdmit and HookResult; empty is the
	// first.
	Hooks []string
	// StateSchema lists the versions of on-provider state that a backend can
	// serve, newest first.
	StateSchema []string
	// Reattach is how long a backend's process lives on when its host dies, so that the
	// next host can adopt it with the sandboxes that live in it; zero means that it ends
	// with its host.
	Reattach time.Duration
	// StartTimeout bounds a process from launch to readiness.
	StartTimeout time.Duration

	schema *jsonschema.Schema
}

// Limits are the most that a plugin asks for. Zero leaves a limit to the host;
// it never means "unlimited".
type Limits struct {
	Memory      int64         // bytes
	Timeout     time.Duration // of one call
	Instances   int           // of one module at once
	Fuel        int64         // units per call, see docs/architecture.md
	InputBytes  int64         // of one call's request
	OutputBytes int64         // of one call's reply
}

// Tighten returns the smaller of both for each limit. The result is never wider
// than either, which is how a host applies its own caps to a manifest.
func (l Limits) Tighten(o Limits) Limits {
	return Limits{
		Memory:      smaller(l.Memory, o.Memory),
		Timeout:     smaller(l.Timeout, o.Timeout),
		Instances:   smaller(l.Instances, o.Instances),
		Fuel:        smaller(l.Fuel, o.Fuel),
		InputBytes:  smaller(l.InputBytes, o.InputBytes),
		OutputBytes: smaller(l.OutputBytes, o.OutputBytes),
	}
}

func smaller[T ~int | ~int64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Option changes how Parse and Load judge a manifest.
type Option int

// RequireDigest is strict mode: a manifest that does not pin its artifact is an
// error.
const RequireDigest Option = 1

// Parse reads a manifest. name is used in errors, which are *Error, joined.
func Parse(name string, data []byte, opts ...Option) (*Manifest, error) {
	d := &decoder{report: report{file: name}, strict: slices.Contains(opts, RequireDigest)}
	if root := parseTree(&d.report, data); root != nil {
		d.manifest(root)
	}
	if len(d.errs) > 0 {
		return nil, d.err()
	}
	m := d.m
	return &m, nil
}

// AllowsCapability reports whether the manifest grants a capability. What a
// backend claims beyond this must be refused.
func (m *Manifest) AllowsCapability(name string) bool {
	return slices.Contains(m.Capabilities, name)
}

// When a policy is asked: before a run, and after it.
const (
	HookAdmit  = "admit"
	HookResult = "result"
)

// Asks reports whether a policy is asked at a hook.
func (m *Manifest) Asks(hook string) bool {
	if len(m.Hooks) == 0 {
		return hook == HookAdmit
	}
	return slices.Contains(m.Hooks, hook)
}

// AllowsImport reports whether the manifest lets a module import name from
// module. What a module imports beyond this must be refused at load.
func (m *Manifest) AllowsImport(module, name string) bool {
	switch {
	case m.Runtime != RuntimeWASM:
		return false
	case m.ABI == ABIOPA:
		return module == "env" && slices.Contains(opaImports, name)
	case module == "host_v1":
		return slices.Contains(m.Imports, name)
	case module == "wasi_snapshot_preview1":
		return m.WASI
	default:
		return false
	}
}

// opaImports is what a module made by "opa build -t wasm" imports from env
// (https://www.openpolicyagent.org/docs/wasm, "imports").
var opaImports = []string{
	"memory", "opa_abort", "opa_println",
	"opa_builtin0", "opa_builtin1", "opa_builtin2", "opa_builtin3", "opa_builtin4",
}

// Negotiate returns the highest protocol version that the plugin and the host
// both speak, or a *ProtocolError that says which of them to upgrade.
func (m *Manifest) Negotiate(host []int) (int, error) {
	for _, v := range slices.Backward(m.Protocol) {
		if slices.Contains(host, v) {
			return v, nil
		}
	}
	offers := slices.Clone(host)
	slices.Sort(offers)
	return 0, &ProtocolError{m.Name, slices.Clone(m.Protocol), offers}
}
