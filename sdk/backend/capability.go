package backend

import (
	"context"
	"io"
	"net"
	"slices"
	"time"
)

// Capability is a flag for something a backend can do beyond the core. A flag
// counts only together with the interface it stands for (see the table at
// Optional), and an interface only together with its flag: decorators and
// remote clients implement everything.
type Capability string

const (
	// CapReconnect: Connect finds a sandbox again after the backend restarted.
	CapReconnect Capability = "reconnect"
	// CapMetadata: metadata is stored with the provider and comes back in listings.
	CapMetadata Capability = "metadata"
	// CapList: List knows every sandbox of the provider account.
	CapList Capability = "list"
	// CapFSEnum: Walk and ListDir see the whole tree with sizes and times.
	CapFSEnum Capability = "fs_enum"
	// CapNames: Sandbox.ID equals CreateSpec.Session.
	CapNames Capability = "names"
	// CapShared: every replica reaches the same sandboxes. Without it a sandbox
	// lives on the machine whose plugin made it.
	CapShared Capability = "shared"
	// CapControl: programs may make programmatic calls (RunSpec.Control).
	CapControl Capability = "control"
	// CapNetwork: open networks and allow lists are enforced as asked.
	CapNetwork Capability = "network"

	// CapTokenOnce stands for TokenConnector: Sandbox.Token comes with Create only,
	// so that whoever loses it loses the way into the sandbox.
	CapTokenOnce Capability = "token_once"
	// CapTTLRefresh stands for KeepAliver.
	CapTTLRefresh Capability = "ttl_refresh"
	// CapPause stands for Pauser.
	CapPause Capability = "pause"
	// CapSnapshots stands for Snapshotter.
	CapSnapshots Capability = "snapshots"
	// CapTemplates stands for TemplateCatalog.
	CapTemplates Capability = "templates"
	// CapVolumes stands for VolumeManager, and for CreateSpec.Volumes.
	CapVolumes Capability = "volumes"
	// CapTerminals stands for TerminalOpener.
	CapTerminals Capability = "terminals"
	// CapDialPort stands for PortDialer.
	CapDialPort Capability = "dial_port"
	// CapDesktop stands for PortDialer too, with a desktop behind the port.
	CapDesktop Capability = "desktop"
	// CapDetached stands for DetachedRunner.
	CapDetached Capability = "detached"
	// CapWatch stands for Watcher.
	CapWatch Capability = "watch"
)

// TokenConnector takes back tokens that its provider tells only once. The host keeps
// them beside its bindings, so that they outlive the plugin and what it remembers.
type TokenConnector interface {
	// ConnectToken is Connect for a caller that has the token of the sandbox, as
	// Sandbox.Token said it, not empty. A token that the provider tells now comes
	// before it. Without any token such a sandbox cannot be entered: that is
	// KindAuthentication, and proves nothing about the sandbox.
	ConnectToken(ctx context.Context, ref Ref, token string) (Sandbox, error)
}

// KeepAliver moves a sandbox's own timeout away.
type KeepAliver interface {
	// KeepAlive makes the sandbox live at least ttl from now, where the provider
	// allows that much, and returns when it will expire. It never creates, wakes
	// or resurrects.
	KeepAlive(ctx context.Context, ref Ref, ttl time.Duration) (time.Time, error)
}

// Pauser parks sandboxes. Connect resumes them.
type Pauser interface {
	// Pause keeps files and, where the provider can, memory. Pausing a paused
	// sandbox is success.
	Pause(ctx context.Context, ref Ref) error
}

// Snapshot is a kept state that sandboxes can start from.
type Snapshot struct {
	ID      string            `json:"id"`
	Name    string            `json:"name,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created,omitzero"`
	Bytes   int64             `json:"bytes,omitempty"`
}

// Snapshotter makes and forgets snapshots.
type Snapshotter interface {
	// Snapshot captures a sandbox, which goes on afterwards.
	Snapshot(ctx context.Context, ref Ref, name string, labels map[string]string) (Snapshot, error)
	// ListSnapshots returns those that carry all labels.
	ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]Snapshot, error)
	// DeleteSnapshot forgets one; an absent one is success.
	DeleteSnapshot(ctx context.Context, config, id string) error
}

// TemplateStatus is where a template is in its life.
type TemplateStatus string

const (
	TemplateReady    TemplateStatus = "ready"
	TemplateBuilding TemplateStatus = "building"
	TemplateFailed   TemplateStatus = "failed"
	// TemplateUntagged needs a new build: waiting never helps.
	TemplateUntagged TemplateStatus = "untagged"
	TemplateAbsent   TemplateStatus = "absent"
)

// Template is an image that sandboxes start from.
type Template struct {
	ID     string         `json:"id"`
	Name   string         `json:"name,omitempty"`
	Status TemplateStatus `json:"status"`
	// Error is the provider's own build error.
	Error string `json:"error,omitempty"`
}

// TemplateCatalog keeps the standard template of a config.
type TemplateCatalog interface {
	// EnsureTemplate returns a healthy or building template, rebuilding a failed
	// or untagged one and building an absent one.
	EnsureTemplate(ctx context.Context, config string) (Template, error)
	// ReplaceTemplate starts a new build beside the old and never deletes.
	ReplaceTemplate(ctx context.Context, config string) (Template, error)
	// ListTemplates returns all of ours.
	ListTemplates(ctx context.Context, config string) ([]Template, error)
	// DeleteSuperseded deletes ours except those to keep.
	DeleteSuperseded(ctx context.Context, config string, keep []string) error
}

// Volume is named storage that outlives sandboxes.
type Volume struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created,omitzero"`
}

// VolumeManager makes volumes ahead of their mounts.
type VolumeManager interface {
	// EnsureVolume makes a volume unless it exists.
	EnsureVolume(ctx context.Context, config, name string) (Volume, error)
	ListVolumes(ctx context.Context, config string) ([]Volume, error)
	// DeleteVolume forgets one; an absent one is success.
	DeleteVolume(ctx context.Context, config, name string) error
}

// TerminalSpec opens a terminal.
type TerminalSpec struct {
	Ref
	// PID attaches to an existing terminal; 0 makes one.
	PID int `json:"pid,omitempty"`
	// Argv is the program; empty means the login shell.
	Argv []string          `json:"argv,omitempty"`
	Dir  string            `json:"dir,omitempty"`
	User string            `json:"user,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	// Cols and Rows default to 80 by 24.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Terminal is an open terminal. Read and Write carry its bytes; Read returns
// io.EOF once the program ended, and then Exit is known. Resize may be called
// at any time. Close detaches where the backend can attach again and ends the
// program where it cannot.
type Terminal interface {
	io.ReadWriteCloser
	// PID identifies it for a later attach; 0 when there is none.
	PID() int
	Resize(ctx context.Context, cols, rows int) error
	// Exit returns the exit code, and false while the program runs.
	Exit() (code int, ok bool)
}

// TerminalOpener opens terminals.
type TerminalOpener interface {
	// OpenTerminal needs a running sandbox; it never wakes one. ctx bounds the
	// opening only.
	OpenTerminal(ctx context.Context, spec TerminalSpec) (Terminal, error)
}

// PortDialer reaches a TCP port inside a sandbox.
type PortDialer interface {
	// DialPort needs a running sandbox; it never wakes one. ctx bounds the dialling
	// only.
	DialPort(ctx context.Context, ref Ref, port int) (net.Conn, error)
}

// DetachedStart begins a run that outlives the call.
type DetachedStart struct {
	RunSpec
	// TTL ends the run at the latest.
	TTL time.Duration `json:"ttl,omitempty"`
}

// DetachedRunner runs programs that outlive the request which began them.
type DetachedRunner interface {
	// StartRun returns once the program runs. Chunked inputs and stdin come from io
	// and are read before that; output is kept for AttachRun.
	StartRun(ctx context.Context, spec DetachedStart, io RunIO) error
	// AttachRun follows a run to its end: what is still kept of its output first,
	// then what comes. Ending ctx detaches and leaves the run alone.
	AttachRun(ctx context.Context, ref Ref, runID string, io RunIO) (RunResult, error)
	// KillRun ends a run and its whole process tree; an ended one is success.
	KillRun(ctx context.Context, ref Ref, runID string) error
}

// WatchEvent is one change below a watched directory.
type WatchEvent struct {
	Path string `json:"path"`
	// Op is "create", "write", "remove", "rename" or "chmod".
	Op string `json:"op"`
}

// Watcher reports changes as they happen.
type Watcher interface {
	// Watch calls fn, from one goroutine, until ctx ends or fn returns an error.
	Watch(ctx context.Context, ref Ref, root string, recursive bool, fn func(WatchEvent) error) error
}

// Has reports whether the flag is declared.
func (i Info) Has(c Capability) bool { return slices.Contains(i.Capabilities, c) }

// Optional returns b as the interface T when info declares the capability that
// stands for T and b implements it, and otherwise the zero T and false. It is
// the only way to reach an optional part:
//
//	if p, ok := backend.Optional[backend.Pauser](b, info); ok { ... }
func Optional[T any](b Backend, info Info) (T, bool) {
	var zero T
	t, ok := b.(T)
	if !ok {
		return zero, false
	}
	for _, row := range capabilityTable {
		if row.is(&zero) && slices.ContainsFunc(row.flags, info.Has) {
			return t, true
		}
	}
	return zero, false
}

// capabilityTable maps every optional interface to its flags. Flags without a
// row describe the core and stand alone.
var capabilityTable = []capabilityRow{
	row[TokenConnector](CapTokenOnce),
	row[KeepAliver](CapTTLRefresh),
	row[Pauser](CapPause),
	row[Snapshotter](CapSnapshots),
	row[TemplateCatalog](CapTemplates),
	row[VolumeManager](CapVolumes),
	row[TerminalOpener](CapTerminals),
	row[PortDialer](CapDialPort, CapDesktop),
	row[DetachedRunner](CapDetached),
	row[Watcher](CapWatch),
}

type capabilityRow struct {
	flags       []Capability
	is          func(ptr any) bool
	implemented func(Backend) bool
}

func row[T any](flags ...Capability) capabilityRow {
	return capabilityRow{
		flags:       flags,
		is:          func(ptr any) bool { _, ok := ptr.(*T); return ok },
		implemented: func(b Backend) bool { _, ok := b.(T); return ok },
	}
}

// Unimplemented returns the declared flags whose interface b lacks. Serve
// refuses such a backend: it promises what it cannot do.
func Unimplemented(b Backend, info Info) []Capability {
	var out []Capability
	for _, row := range capabilityTable {
		for _, f := range row.flags {
			if info.Has(f) && !row.implemented(b) {
				out = append(out, f)
			}
		}
	}
	return out
}
