package dialect

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// build says how the standard template is built.
type build struct {
	TemplateName string   `json:"name"`
	Image        string   `json:"image"`
	Run          []string `json:"run"`
	StartCommand string   `json:"start_command"`
	ReadyCommand string   `json:"ready_command"`
	CPUs         int      `json:"cpus"`
	MemoryMB     int      `json:"memory_mb"`
}

func (b *build) check() error {
	if b == nil {
		return nil
	}
	if err := remote.CheckBuild(b.TemplateName, b.Image); err != nil {
		return err
	}
	if b.CPUs < 0 || b.MemoryMB < 0 || b.MemoryMB > 0 && b.MemoryMB < 128 {
		return errors.New("build: cpus must be positive and memory_mb at least 128")
	}
	return nil
}

// builder implements remote.Builder.
type builder struct {
	build
	registry remote.Registry
	api      *control.Client
}

// Name implements remote.Builder.
func (b *builder) Name() string { return b.TemplateName }

// template is one in a listing.
type template struct {
	TemplateID  string   `json:"templateID"`
	BuildID     string   `json:"buildID"`
	Names       []string `json:"names"`
	Aliases     []string `json:"aliases"`
	BuildCount  int      `json:"buildCount"`
	BuildStatus string   `json:"buildStatus"`
}

// noBuild is the id of a build that a template does not have.
const noBuild = "00000000-0000-0000-0000-000000000000"

// status maps the listing's words. A template with builds of which none has the tag
// "default" cannot be used by its bare name, and waiting changes nothing.
func (t template) status() backend.TemplateStatus {
	switch {
	case t.BuildID == noBuild && (t.BuildCount > 0 || t.BuildStatus == "ready" || t.BuildStatus == "uploaded"):
		return backend.TemplateUntagged
	case t.BuildID == noBuild || t.BuildID == "":
		return backend.TemplateAbsent
	}
	switch t.BuildStatus {
	case "ready", "uploaded", "success":
		return backend.TemplateReady
	case "error", "failed":
		return backend.TemplateFailed
	default:
		return backend.TemplateBuilding
	}
}

// Templates implements remote.Builder. Older servers know only the first version of
// the route, which has no pages.
func (b *builder) Templates(ctx context.Context, op string) ([]remote.Built, error) {
	call := control.Call{
		Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/v2/templates", Query: url.Values{"limit": {"100"}},
	}
	list, err := control.Pages[template](ctx, b.api, call)
	if err != nil && backend.KindOf(err) == backend.KindUnsupported {
		call.Path, call.Query = "/templates", nil
		list, err = control.Pages[template](ctx, b.api, call)
	}
	if err != nil {
		return nil, err
	}
	out := make([]remote.Built, 0, len(list))
	for _, t := range list {
		built := remote.Built{ID: t.TemplateID, Names: slices.Concat(t.Names, t.Aliases), Status: t.status()}
		if built.Status == backend.TemplateFailed {
			built.Error = b.reason(ctx, op, t)
		}
		out = append(out, built)
	}
	return out, nil
}

// reason is the provider's own word for why a build failed.
func (b *builder) reason(ctx context.Context, op string, t template) string {
	var status struct {
		Reason struct {
			Message string `json:"message"`
		} `json:"reason"`
	}
	_, err := b.api.Do(ctx, control.Call{
		Op: op, Class: fault.Template, Method: http.MethodGet, Out: &status,
		Path: "/templates/" + control.Escape(t.TemplateID) + "/builds/" + control.Escape(t.BuildID) + "/status",
	})
	if err != nil {
		return "the build failed, and the provider does not say why"
	}
	return b.api.Redact(status.Reason.Message)
}

type startBody struct {
	Name     string `json:"name"`
	CPUCount int    `json:"cpuCount,omitempty"`
	MemoryMB int    `json:"memoryMB,omitempty"`
}

type buildBody struct {
	FromImage         string        `json:"fromImage"`
	FromImageRegistry *registryBody `json:"fromImageRegistry,omitempty"`
	Force             bool          `json:"force"`
	Steps             []step        `json:"steps,omitempty"`
	StartCmd          string        `json:"startCmd,omitempty"`
	ReadyCmd          string        `json:"readyCmd,omitempty"`
}

type registryBody struct {
	Type     string `json:"type"`
	Username string `json:"username"`
	Password string `json:"password"`
}

type step struct {
	Type string   `json:"type"`
	Args []string `json:"args"`
}

// Build implements remote.Builder. The same name is the same template with a new
// build; the tag is said, since a build without it cannot be used by the bare name.
func (b *builder) Build(ctx context.Context, op, name string, old *remote.Built) (backend.Template, error) {
	var made struct {
		TemplateID string `json:"templateID"`
		BuildID    string `json:"buildID"`
	}
	_, err := b.api.Do(ctx, control.Call{
		Op: op, Class: fault.Template, Method: http.MethodPost, Path: "/v3/templates", Out: &made,
		Body: startBody{Name: name + ":default", CPUCount: b.CPUs, MemoryMB: b.MemoryMB},
	})
	if err != nil {
		return backend.Template{}, err
	}
	if made.TemplateID == "" || made.BuildID == "" {
		return backend.Template{}, backend.Errorf(backend.KindInternal, op, "the reply names no template and build")
	}
	body := buildBody{FromImage: b.Image, Force: old != nil, StartCmd: b.StartCommand, ReadyCmd: b.ReadyCommand}
	if b.registry.Username != "" {
		body.FromImageRegistry = &registryBody{Type: "registry", Username: b.registry.Username, Password: b.registry.Password}
	}
	for _, command := range b.Run {
		body.Steps = append(body.Steps, step{Type: "RUN", Args: []string{command}})
	}
	_, err = b.api.Do(ctx, control.Call{
		Op: op, Class: fault.Template, Method: http.MethodPost, Body: body,
		Path: "/v2/templates/" + control.Escape(made.TemplateID) + "/builds/" + control.Escape(made.BuildID),
	})
	if err != nil {
		if old == nil { // an empty shell is of no use to anybody
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), control.UnaryBudget)
			defer cancel()
			_ = b.api.DropTemplate(ctx, op, fault.Template, made.TemplateID)
		}
		return backend.Template{}, err
	}
	return backend.Template{ID: made.TemplateID, Name: name, Status: backend.TemplateBuilding}, nil
}
