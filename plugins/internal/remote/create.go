package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// readyTime bounds waiting for the daemon of a new or resumed sandbox, cleanupTime
// what has to be done although the caller may be gone.
const (
	readyTime   = 30 * time.Second
	cleanupTime = 30 * time.Second
)

// Create implements backend.Backend.
func (b *Backend) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	const op = "Create"
	c, err := b.config(op, spec.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := ctx.Err(); err != nil {
		return backend.Sandbox{}, err
	}
	if err := c.checkSpec(op, &spec); err != nil {
		return backend.Sandbox{}, err
	}
	leave, err := c.lanes.enter(ctx, spec.Session)
	if err != nil {
		return backend.Sandbox{}, err
	}
	defer leave()
	others, err := c.ofSession(ctx, op, spec.Session)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if len(others) > 0 {
		return backend.Sandbox{}, c.taken(op)
	}
	request := nonce()
	meta := stamp(c.id, request, spec.Metadata, spec.Timeout)
	body, err := c.Dialect.CreateBody(spec, meta)
	if err != nil {
		return backend.Sandbox{}, err
	}
	made, err := c.request(ctx, op, request, body, secretsOf(spec))
	if err != nil {
		return backend.Sandbox{}, missingSnapshot(err, spec)
	}
	sb, err := c.finish(ctx, op, spec, meta, made)
	if err != nil {
		c.discard(ctx, made.SandboxID)
		return backend.Sandbox{}, err
	}
	return sb, nil
}

// checkSpec refuses what no provider here can do. What depends on the provider is the
// dialect's to refuse.
func (c *config) checkSpec(op string, spec *backend.CreateSpec) error {
	unsupported := func(what string) error { return c.b.fail(op, backend.KindUnsupported, "%s", what) }
	switch {
	case spec.Session == "":
		return c.b.fail(op, backend.KindInvalidRequest, "session is required")
	case spec.Template != "" && spec.Snapshot != "":
		return c.b.fail(op, backend.KindInvalidRequest, "template and snapshot: at most one is allowed")
	case len(spec.Entrypoint) > 0:
		return unsupported("entrypoint: a template's cannot be replaced")
	case len(spec.Volumes) > 0:
		return unsupported("volumes: not offered")
	case spec.Limits != backend.Limits{}:
		return unsupported("limits: the template decides what a sandbox has")
	}
	if spec.Template == "" && spec.Snapshot == "" {
		spec.Template = c.TemplateID
	}
	return nil
}

// ofSession lists the live sandboxes of a session, oldest first; of equally old ones
// everybody agrees on the order.
func (c *config) ofSession(ctx context.Context, op, session string) ([]backend.Sandbox, error) {
	f := backend.ListFilter{Config: c.id, Session: session}
	all, err := c.list(ctx, op, f)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(sb backend.Sandbox) bool { return !f.Matches(sb) })
	slices.SortFunc(all, func(a, b backend.Sandbox) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func (c *config) taken(op string) error {
	e := c.b.fail(op, backend.KindConflict, "the session has a sandbox already")
	e.Subject = backend.SubjectSandbox
	return e
}

// request makes the sandbox. When the reply is lost, the one that it was about is
// found by its request: it is adopted, or ended when nobody waits for it any more.
func (c *config) request(ctx context.Context, op, request string, body any, hide []string) (control.Sandbox, error) {
	var made control.Sandbox
	reply, err := c.create.Do(ctx, c.API, control.Call{
		Op: op, Class: fault.Create, Method: http.MethodPost, Path: "/sandboxes", Body: body, Out: &made, Budget: control.CreateBudget,
		Hide: hide,
	})
	if err == nil && !c.Dialect.ValidID(made.SandboxID) {
		err = c.b.fail(op, backend.KindInternal, "the reply names no sandbox (status %d)", reply.Status)
	}
	if err == nil || !ambiguous(err) {
		return made, err
	}
	lost, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	found, listErr := c.API.Sandboxes(lost, op, map[string]string{keyRequest: request})
	if listErr != nil {
		c.b.p.Log.Warn("a sandbox may be left behind by a creation whose reply was lost", "request", request)
		return made, err
	}
	for _, s := range found {
		if s.Metadata[keyRequest] != request || !c.Dialect.ValidID(s.SandboxID) {
			continue
		}
		// Without its tokens it is of no use to those who are told them once.
		if ctx.Err() == nil && !c.traits.TokenOnce {
			if full, getErr := c.API.Describe(lost, op, c.named(s.SandboxID)); getErr == nil {
				return full, nil
			}
		}
		c.discard(lost, s.SandboxID)
	}
	return made, err
}

// finish makes a new sandbox ready for work.
func (c *config) finish(ctx context.Context, op string, spec backend.CreateSpec, meta map[string]string, made control.Sandbox) (backend.Sandbox, error) {
	id := made.SandboxID
	if c.traits.NeedToken && made.EnvdAccessToken == "" {
		return backend.Sandbox{}, c.b.fail(op, backend.KindAuthentication,
			"the provider issued no access token: the sandbox would be open to everybody; is the template's daemon too old?")
	}
	if c.traits.TokenOnce || c.traits.NoCreateEnv || spec.Snapshot != "" {
		rec := record{Metadata: meta, Created: c.b.p.Now()}
		if c.traits.TokenOnce {
			rec.AccessToken, rec.TrafficToken, rec.Domain = made.EnvdAccessToken, made.TrafficAccessToken, made.Domain
		}
		if c.traits.NoCreateEnv || spec.Snapshot != "" {
			rec.Env = spec.Env
		}
		if err := c.records.keep(id, rec); err != nil {
			return backend.Sandbox{}, c.b.fail(op, backend.KindInternal, "%w", err)
		}
	}
	made.Metadata = meta
	sb, err := c.adopt(op, id, made)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := c.data.Bind(id, c.endpoint(made)); err != nil {
		return backend.Sandbox{}, err
	}
	if err := c.ready(ctx, id); err != nil {
		return backend.Sandbox{}, err
	}
	if err := c.data.MakeDir(ctx, sb.Ref, backend.DataDir); err != nil {
		return backend.Sandbox{}, err
	}
	// Another replica may have made one at the same time. All see both, and agree on
	// the older.
	all, err := c.ofSession(ctx, op, spec.Session)
	if err != nil {
		return backend.Sandbox{}, err
	}
	for i, other := range all {
		switch {
		case other.ID == id:
			sb.Created, sb.Expires = other.Created, other.Expires
			return sb, nil
		case i == 0:
			return backend.Sandbox{}, c.taken(op)
		}
	}
	return sb, nil // a listing may be late
}

// ready waits for the daemon.
func (c *config) ready(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return c.data.Ready(ctx, id)
}

// discard ends a sandbox that nobody will use, whether or not the caller is there.
func (c *config) discard(ctx context.Context, id string) {
	if !c.Dialect.ValidID(id) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := c.end(ctx, "Create", id); err != nil {
		c.b.p.Log.Warn("a sandbox that failed could not be deleted", "sandbox", id, "error", err)
	}
}

// missingSnapshot says that a snapshot is gone where a template would be wrong.
func missingSnapshot(err error, spec backend.CreateSpec) error {
	var e *backend.Error
	if spec.Snapshot != "" && errors.As(err, &e) && e.Kind == backend.KindInvalidRequest && e.Status == http.StatusNotFound {
		gone := *e
		gone.Kind, gone.Subject = backend.KindNotFound, backend.SubjectSnapshot
		return &gone
	}
	return err
}

// secretsOf are the texts of a spec that may be secrets: the environment and what
// rules put into requests.
func secretsOf(spec backend.CreateSpec) []string {
	var out []string
	for _, v := range spec.Env {
		out = append(out, v)
	}
	d := json.NewDecoder(bytes.NewReader(spec.Network.Rules))
	for {
		token, err := d.Token()
		if err != nil {
			return out
		}
		if text, ok := token.(string); ok {
			out = append(out, text)
		}
	}
}

// nonce names one request.
func nonce() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
