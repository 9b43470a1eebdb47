package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// desktopPort is where images with a desktop serve it.
const desktopPort = 6080

// build says how the standard template is built.
type build struct {
	TemplateName  string   `json:"name"`
	Image         string   `json:"image"`
	Command       []string `json:"command"`
	DNS           []string `json:"dns"`
	Disk          string   `json:"disk"`
	CPUMillicores int      `json:"cpu_millicores"`
	MemoryMB      int      `json:"memory_mb"`
	Desktop       bool     `json:"desktop"`
}

var diskForm = regexp.MustCompile(`^[1-9][0-9]{0,4}[MG]$`)

// check reads what a config says and puts the name servers in order.
func (b *build) check() error {
	if b == nil {
		return nil
	}
	if b.Disk == "" {
		b.Disk = "1G"
	}
	if err := remote.CheckBuild(b.TemplateName, b.Image); err != nil {
		return err
	}
	switch {
	case !diskForm.MatchString(b.Disk):
		return errors.New("build.disk: must be a size such as 1G")
	case b.CPUMillicores < 0 || b.MemoryMB < 0:
		return errors.New("build: cpu_millicores and memory_mb must be positive")
	}
	var err error
	b.DNS, err = nameServers(b.DNS)
	return err
}

// nameServers takes white space and repetitions out of a list of addresses.
func nameServers(list []string) ([]string, error) {
	var out []string
	for i, s := range list {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("build.dns[%d]: must be an address", i)
		}
		if a := a.String(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// builder implements remote.Builder.
type builder struct {
	build
	registry remote.Registry
	api      *control.Client
}

// Name implements remote.Builder.
func (b *builder) Name() string { return b.TemplateName }

// Templates implements remote.Builder.
func (b *builder) Templates(ctx context.Context, op string) ([]remote.Built, error) {
	list, err := control.Pages[struct {
		TemplateID string   `json:"templateID"`
		Status     string   `json:"status"`
		LastError  string   `json:"lastError"`
		Names      []string `json:"names"`
		Aliases    []string `json:"aliases"`
	}](ctx, b.api, control.Call{Op: op, Class: fault.Listing, Method: http.MethodGet, Path: "/templates"})
	if err != nil {
		return nil, err
	}
	out := make([]remote.Built, 0, len(list))
	for _, t := range list {
		built := remote.Built{ID: t.TemplateID, Names: slices.Concat(t.Names, t.Aliases)}
		switch strings.ToLower(t.Status) {
		case "ready":
			built.Status = backend.TemplateReady
		case "failed", "error":
			built.Status, built.Error = backend.TemplateFailed, b.api.Redact(t.LastError)
		default:
			built.Status = backend.TemplateBuilding
		}
		out = append(out, built)
	}
	return out, nil
}

type templateBody struct {
	Image             string   `json:"image"`
	Name              string   `json:"name"`
	WritableLayerSize string   `json:"writableLayerSize"`
	ExposedPorts      []int    `json:"exposedPorts"`
	ProbePort         int      `json:"probePort"`
	ProbePath         string   `json:"probePath"`
	CPU               int      `json:"cpu,omitempty"`
	Memory            int      `json:"memory,omitempty"`
	RegistryUsername  string   `json:"registryUsername,omitempty"`
	RegistryPassword  string   `json:"registryPassword,omitempty"`
	Command           []string `json:"command,omitempty"`
	DNS               []string `json:"dns,omitempty"`
}

// Build implements remote.Builder: a template whose builds failed is built again.
func (b *builder) Build(ctx context.Context, op, name string, old *remote.Built) (backend.Template, error) {
	body := templateBody{
		Image: b.Image, Name: name, WritableLayerSize: b.Disk, ExposedPorts: []int{envd.Port}, ProbePort: envd.Port, ProbePath: "/health",
		CPU: b.CPUMillicores, Memory: b.MemoryMB, RegistryUsername: b.registry.Username, RegistryPassword: b.registry.Password,
		Command: b.Command, DNS: b.DNS,
	}
	if b.Desktop {
		body.ExposedPorts = append(body.ExposedPorts, desktopPort)
	}
	path := "/templates"
	if old != nil {
		path += "/" + control.Escape(old.ID)
	}
	var job struct {
		TemplateID string `json:"templateID"`
	}
	_, err := b.api.Do(ctx, control.Call{Op: op, Class: fault.Template, Method: http.MethodPost, Path: path, Body: body, Out: &job})
	if err != nil {
		return backend.Template{}, err
	}
	if job.TemplateID == "" && old != nil {
		job.TemplateID = old.ID
	}
	if job.TemplateID == "" {
		return backend.Template{}, backend.Errorf(backend.KindInternal, op, "the reply names no template")
	}
	return backend.Template{ID: job.TemplateID, Name: name, Status: backend.TemplateBuilding}, nil
}
