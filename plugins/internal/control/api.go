package control

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Sandbox is what the control planes say of one, in replies to creating, connecting,
// describing and listing. Which members are set depends on the call.
type Sandbox struct {
	SandboxID  string `json:"sandboxID"`
	TemplateID string `json:"templateID"`
	// EnvdVersion is the daemon's; one provider always says 0.2.0.
	EnvdVersion string `json:"envdVersion"`
	// EnvdAccessToken and TrafficAccessToken are secrets. They come with some replies
	// only; an absent one means nothing.
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
	// Domain is the sandbox's own, where it differs from the config's.
	Domain    string            `json:"domain"`
	State     string            `json:"state"`
	StartedAt time.Time         `json:"startedAt"`
	EndAt     time.Time         `json:"endAt"`
	Metadata  map[string]string `json:"metadata"`
}

// String leaves the secrets out.
func (s Sandbox) String() string { return "sandbox " + s.SandboxID + " " + s.State }

// GoString leaves the secrets out.
func (s Sandbox) GoString() string { return s.String() }

// Neutral maps a provider's word for a state to one of five. What has no name here
// is StateUnknown, which preserves the sandbox. An empty word is running: replies to
// creating and connecting have none.
func Neutral(raw string) backend.State {
	switch raw {
	case "running", "available", "":
		return backend.StateRunning
	case "paused":
		return backend.StatePaused
	case "pausing", "resuming", "pending", "creating", "starting", "provisioning", "snapshotting":
		return backend.StateTransitioning
	case "killed", "killing", "terminated", "stopped", "deleted", "failed", "error":
		return backend.StateTerminated
	}
	return backend.StateUnknown
}

// Versions makes a call on a route that some servers have only in its first and
// others only in its second version, and remembers which. The zero value is ready.
type Versions struct {
	second atomic.Bool
}

// Do makes the call with the path as it is, or below /v2 once the server turned out
// not to know it.
func (v *Versions) Do(ctx context.Context, c *Client, call Call) (Reply, error) {
	first := call.Path
	if v.second.Load() {
		call.Path = "/v2" + first
	}
	reply, err := c.Do(ctx, call)
	if err == nil || backend.KindOf(err) != backend.KindUnsupported || v.second.Load() {
		return reply, err
	}
	call.Path = "/v2" + first
	again, secondErr := c.Do(ctx, call)
	if secondErr != nil && backend.KindOf(secondErr) == backend.KindUnsupported {
		return reply, err // neither is there
	}
	v.second.Store(true)
	return again, secondErr
}

// SandboxPath is the path of one sandbox, with what a caller wrote escaped.
func SandboxPath(id, rest string) string { return "/sandboxes/" + Escape(id) + rest }

// Escape makes one path segment of an id, colons included: ids of snapshots hold a
// team and a tag.
func Escape(id string) string { return strings.ReplaceAll(url.PathEscape(id), ":", "%3A") }

// TimeoutBody is the body of the calls that take a timeout in seconds.
type TimeoutBody struct {
	Timeout int64 `json:"timeout"`
}

// Named is a sandbox that calls are about, with the secrets that are known of it.
type Named struct {
	ID   string
	Hide []string
}

// call is one about the sandbox.
func (n Named) call(op, method, rest string) Call {
	return Call{Op: op, Class: fault.Sandbox, Method: method, Path: SandboxPath(n.ID, rest), Hide: n.Hide}
}

// Describe returns one sandbox. It wakes nothing.
func (c *Client) Describe(ctx context.Context, op string, n Named) (Sandbox, error) {
	var s Sandbox
	call := n.call(op, http.MethodGet, "")
	call.Out = &s
	reply, err := c.Do(ctx, call)
	if err == nil && s.SandboxID == "" {
		err = c.fail(call, backend.KindInternal, reply.Status, "the reply names no sandbox", nil)
	}
	return s, err
}

// Wake extends or resumes a sandbox, and reports whether the server says that it was
// resumed, which not all do. v remembers the version of the route.
func (c *Client) Wake(ctx context.Context, v *Versions, op string, n Named, timeout time.Duration) (s Sandbox, resumed bool, err error) {
	call := n.call(op, http.MethodPost, "/connect")
	call.Body, call.Out, call.Budget = TimeoutBody{Seconds(timeout)}, &s, WakeBudget
	reply, err := v.Do(ctx, c, call)
	return s, reply.Status == http.StatusCreated, err
}

// Kill ends a sandbox.
func (c *Client) Kill(ctx context.Context, op string, n Named) error {
	call := n.call(op, http.MethodDelete, "")
	call.Budget = WakeBudget
	_, err := c.Do(ctx, call)
	return err
}

// Pause parks a sandbox. Some servers refuse an empty body.
func (c *Client) Pause(ctx context.Context, op string, n Named) error {
	call := n.call(op, http.MethodPost, "/pause")
	call.Body, call.Budget = struct{}{}, WakeBudget
	_, err := c.Do(ctx, call)
	return err
}

// SetTimeout sets when the provider acts, from now. It may shorten.
func (c *Client) SetTimeout(ctx context.Context, op string, n Named, d time.Duration) error {
	call := n.call(op, http.MethodPost, "/timeout")
	call.Body = TimeoutBody{Seconds(d)}
	_, err := c.Do(ctx, call)
	return err
}

// Seconds rounds a duration up; what is below zero means never to those who know it.
func Seconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Second - 1) / time.Second)
}

// Sandboxes lists all pages, paused ones included. The server filters by the pairs
// in match where it can: the caller has to filter again.
func (c *Client) Sandboxes(ctx context.Context, op string, match map[string]string) ([]Sandbox, error) {
	query := url.Values{"state": {"running,paused"}, "limit": {"100"}}
	if len(match) > 0 {
		query.Set("metadata", EncodeMetadata(match))
	}
	return Pages[Sandbox](ctx, c, Call{Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/v2/sandboxes", Query: query})
}

// EncodeMetadata is the value of the metadata parameter. The server takes it apart
// after decoding it twice, and decodes keys and values once more; the query itself is
// encoded by whoever sends it.
func EncodeMetadata(match map[string]string) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") } // as the provider's own client
	m := url.Values{}
	for k, v := range match {
		m.Set(escape(k), escape(v))
	}
	return m.Encode()
}

// Health looks whether the server is there, and whether it takes our key: a wrong key
// must not look healthy.
func (c *Client) Health(ctx context.Context, op string) error {
	_, err := c.Do(ctx, Call{Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/health", Open: true, Budget: HealthBudget})
	if err != nil {
		return err
	}
	var list []Sandbox
	_, err = c.Do(ctx, Call{
		Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/v2/sandboxes", Query: url.Values{"limit": {"1"}}, Out: &list, Budget: UnaryBudget,
	})
	return err
}

// Snapshot is one in a listing, or a new one.
type Snapshot struct {
	SnapshotID string    `json:"snapshotID"`
	Names      []string  `json:"names"`
	Status     string    `json:"status"`
	CreatedAt  time.Time `json:"createdAt"`
}

// TakeSnapshot captures a sandbox under a name.
func (c *Client) TakeSnapshot(ctx context.Context, op string, n Named, name string) (Snapshot, error) {
	var s Snapshot
	call := n.call(op, http.MethodPost, "/snapshots")
	call.Body, call.Out, call.Budget = map[string]string{"name": name}, &s, SnapshotBudget
	reply, err := c.Do(ctx, call)
	if err == nil && s.SnapshotID == "" {
		err = c.fail(call, backend.KindInternal, reply.Status, "the reply names no snapshot", nil)
	}
	return s, err
}

// Snapshots lists all pages.
func (c *Client) Snapshots(ctx context.Context, op string) ([]Snapshot, error) {
	return Pages[Snapshot](ctx, c, Call{
		Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/snapshots", Query: url.Values{"limit": {"100"}},
	})
}

// DropTemplate deletes a template or a snapshot, which is one to the API.
func (c *Client) DropTemplate(ctx context.Context, op string, class fault.Class, id string) error {
	_, err := c.Do(ctx, Call{Op: op, Class: class, Method: http.MethodDelete, Path: "/templates/" + Escape(id), Budget: SnapshotBudget})
	return err
}

// Alias finds the id of a template by its name. An absent one is a KindNotFound.
func (c *Client) Alias(ctx context.Context, op, name string) (string, error) {
	var t struct {
		TemplateID string `json:"templateID"`
	}
	_, err := c.Do(ctx, Call{
		Op: op, Class: fault.Template, Method: http.MethodGet, Path: "/templates/aliases/" + Escape(name), Out: &t,
	})
	return cmp.Or(t.TemplateID, name), err
}

// TemplateExists asks for a template by name or id, whichever it is. Servers without
// the routes are given the benefit of the doubt.
func (c *Client) TemplateExists(ctx context.Context, op, template string) error {
	_, err := c.Alias(ctx, op, template)
	switch backend.KindOf(err) {
	case backend.KindNotFound, backend.KindUnsupported, backend.KindInvalidRequest:
	default:
		return err
	}
	if err == nil {
		return nil
	}
	id, _, _ := strings.Cut(template, ":")
	_, err = c.Do(ctx, Call{Op: op, Class: fault.Template, Method: http.MethodGet, Path: "/templates/" + Escape(id)})
	if err != nil && backend.KindOf(err) == backend.KindUnsupported {
		return nil
	}
	return err
}
