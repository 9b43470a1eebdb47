package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/caisson-run/caisson/host"
)

// PluginOperator is what the server's side needs to operate plugins: *host.Host,
// and whoever knows where its configuration is.
type PluginOperator interface {
	Plugins() []host.PluginStatus
	PluginDetail(name string) (host.PluginDetail, error)
	PluginLog(name string) ([]string, error)
	SwapPlugin(ctx context.Context, name string, o host.SwapOptions) (host.SwapReport, error)
	AcceptSwap(ctx context.Context, name string) error
	ResetPlugin(name string) error
	// Reload reads the configuration again and returns what changed.
	Reload(ctx context.Context) ([]string, error)
}

// maxBody bounds a request, maxWatch how long a swap is watched.
const (
	maxBody  = 64 << 10
	maxWatch = time.Hour
)

// swapRequest is the body of a swap.
type swapRequest struct {
	Dir   string `json:"dir"`
	Probe bool   `json:"probe"`
	// Replay is how many recorded requests a policy judges before it serves.
	Replay int `json:"replay,omitempty"`
	// WatchMS is how long the swap is watched: absent means the default, 0 not at
	// all.
	WatchMS *int64 `json:"watch_ms,omitempty"`
}

func (q swapRequest) options() (host.SwapOptions, error) {
	o := host.SwapOptions{Dir: q.Dir, Probe: q.Probe, Replay: q.Replay}
	if q.Replay < 0 || q.Replay > maxAsked {
		return o, errors.New("replay: must be between 0 and 1000")
	}
	if !filepath.IsAbs(q.Dir) {
		return o, errors.New("dir: must be an absolute path")
	}
	if q.WatchMS != nil {
		if *q.WatchMS < 0 || *q.WatchMS > maxWatch.Milliseconds() {
			return o, errors.New("watch_ms: must be between 0 and 3600000")
		}
		if o.Watch = time.Duration(*q.WatchMS) * time.Millisecond; o.Watch == 0 {
			o.Watch = -1
		}
	}
	return o, nil
}

func pluginRoutes(mux *http.ServeMux, p PluginOperator) {
	mux.HandleFunc("GET /plugins", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, p.Plugins())
	})
	mux.HandleFunc("GET /plugins/{name}", func(w http.ResponseWriter, r *http.Request) {
		d, err := p.PluginDetail(r.PathValue("name"))
		answer(w, d, err)
	})
	mux.HandleFunc("GET /plugins/{name}/log", func(w http.ResponseWriter, r *http.Request) {
		lines, err := p.PluginLog(r.PathValue("name"))
		if lines == nil {
			lines = []string{}
		}
		answer(w, lines, err)
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		changes, err := p.Reload(r.Context())
		if changes == nil {
			changes = []string{}
		}
		answer(w, changes, err)
	})
	mux.HandleFunc("POST /plugins/{name}/reset", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, p.ResetPlugin(r.PathValue("name")))
	})
	mux.HandleFunc("POST /plugins/{name}/accept", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, p.AcceptSwap(r.Context(), r.PathValue("name")))
	})
	mux.HandleFunc("POST /plugins/{name}/swap", func(w http.ResponseWriter, r *http.Request) {
		var q swapRequest
		err := decode(http.MaxBytesReader(w, r.Body, maxBody), &q)
		var o host.SwapOptions
		if err == nil {
			o, err = q.options()
		}
		if err != nil {
			reply(w, http.StatusBadRequest, failure{Error: err.Error()})
			return
		}
		report, err := p.SwapPlugin(r.Context(), r.PathValue("name"), o)
		answer(w, report, err)
	})
}

// answer tells an error of the host, which explains itself.
func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		f := failure{Error: err.Error()}
		if errors.Is(err, host.ErrNoPlugin) {
			f.Kind = kindAbsent
		}
		reply(w, http.StatusConflict, f)
		return
	}
	reply(w, http.StatusOK, v)
}

func decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New("body: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body: more than one JSON value")
	}
	return nil
}

// Plugins lists every plugin as it is now.
func (c *Client) Plugins(ctx context.Context) (out []host.PluginStatus, err error) {
	return out, c.do(ctx, http.MethodGet, "/plugins", nil, &out)
}

// Plugin describes one.
func (c *Client) Plugin(ctx context.Context, name string) (out host.PluginDetail, err error) {
	return out, c.do(ctx, http.MethodGet, "/plugins/"+url.PathEscape(name), nil, &out)
}

// PluginLog returns the last lines that a backend's process logged.
func (c *Client) PluginLog(ctx context.Context, name string) (out []string, err error) {
	return out, c.do(ctx, http.MethodGet, "/plugins/"+url.PathEscape(name)+"/log", nil, &out)
}

// SwapPlugin is host.Host.SwapPlugin.
func (c *Client) SwapPlugin(ctx context.Context, name string, o host.SwapOptions) (out host.SwapReport, err error) {
	q := swapRequest{Dir: o.Dir, Probe: o.Probe, Replay: o.Replay}
	if o.Watch != 0 {
		ms := max(0, o.Watch.Milliseconds())
		q.WatchMS = &ms
	}
	return out, c.do(ctx, http.MethodPost, "/plugins/"+url.PathEscape(name)+"/swap", q, &out)
}

// AcceptSwap is host.Host.AcceptSwap.
func (c *Client) AcceptSwap(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/plugins/"+url.PathEscape(name)+"/accept", nil, nil)
}

// ResetPlugin is host.Host.ResetPlugin.
func (c *Client) ResetPlugin(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/plugins/"+url.PathEscape(name)+"/reset", nil, nil)
}

// Reload makes the server read its configuration again and returns what changed.
func (c *Client) Reload(ctx context.Context) (out []string, err error) {
	return out, c.do(ctx, http.MethodPost, "/reload", nil, &out)
}
