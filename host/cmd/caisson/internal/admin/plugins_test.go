package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/hashicorp/go-hclog"
)

// operated is a host with one plugin.
type operated struct {
	fixed
	swapped host.SwapOptions
	reset   string
}

var errAbsent = errors.New(`no plugin is called "absent"`)

func (o *operated) Plugins() []host.PluginStatus {
	return []host.PluginStatus{{Name: "wasm", State: host.PluginQuarantined, Cause: "exited"}}
}

func (o *operated) PluginDetail(name string) (host.PluginDetail, error) {
	if name == "absent" {
		return host.PluginDetail{}, errAbsent
	}
	return host.PluginDetail{PluginStatus: o.Plugins()[0], Process: &host.ProcessDetail{PID: 7}}, nil
}

func (o *operated) PluginLog(name string) ([]string, error) { return nil, nil }

func (o *operated) SwapPlugin(_ context.Context, name string, s host.SwapOptions) (host.SwapReport, error) {
	if name == "absent" {
		return host.SwapReport{}, errAbsent
	}
	o.swapped = s
	return host.SwapReport{Plugin: name, Outcome: host.SwapRolledBack, Reason: "it fell", Prepare: time.Second}, nil
}

func (o *operated) AcceptSwap(_ context.Context, name string) error {
	if name == "absent" {
		return errAbsent
	}
	return nil
}

func (o *operated) ResetPlugin(name string) error {
	o.reset = name
	return nil
}

func TestPluginsOverTheSocket(t *testing.T) {
	dir, h := t.TempDir(), &operated{}
	s, err := Serve(t.Context(), dir, h, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if list, err := c.Plugins(t.Context()); err != nil || len(list) != 1 || list[0].State != host.PluginQuarantined {
		t.Errorf("%+v %v", list, err)
	}
	if d, err := c.Plugin(t.Context(), "wasm"); err != nil || d.Process.PID != 7 || d.Cause != "exited" {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := c.Plugin(t.Context(), "absent"); err == nil || err.Error() != errAbsent.Error() {
		t.Error(err)
	}
	if lines, err := c.PluginLog(t.Context(), "wasm"); err != nil || lines == nil {
		t.Errorf("%q %v", lines, err)
	}
	if err := c.AcceptSwap(t.Context(), "wasm"); err != nil {
		t.Error(err)
	}
	if err := c.AcceptSwap(t.Context(), "absent"); err == nil || err.Error() != errAbsent.Error() {
		t.Error(err)
	}
	if err := c.ResetPlugin(t.Context(), "a b/c"); err != nil || h.reset != "a b/c" {
		t.Errorf("%q %v", h.reset, err)
	}
	for watch, want := range map[time.Duration]time.Duration{0: 0, -1: -1, 1500 * time.Millisecond: 1500 * time.Millisecond} {
		r, err := c.SwapPlugin(t.Context(), "wasm", host.SwapOptions{Dir: "/next", Probe: true, Watch: watch})
		if err != nil || r.Outcome != host.SwapRolledBack || r.Prepare != time.Second {
			t.Errorf("%+v %v", r, err)
		}
		if h.swapped != (host.SwapOptions{Dir: "/next", Probe: true, Watch: want}) {
			t.Errorf("asked for %+v, want watch %v", h.swapped, want)
		}
	}
	if _, err := c.SwapPlugin(t.Context(), "absent", host.SwapOptions{Dir: "/next"}); err == nil || err.Error() != errAbsent.Error() {
		t.Error(err)
	}
	if _, err := c.SwapPlugin(t.Context(), "wasm", host.SwapOptions{Dir: "next"}); err == nil || !strings.Contains(err.Error(), "dir: must be an absolute path") {
		t.Error(err)
	}
	for _, body := range []any{map[string]any{"dir": "/x", "force": true}, map[string]any{"dir": "/x", "watch_ms": -1}, map[string]any{"dir": "/x", "watch_ms": 1 << 40}, "x", nil} {
		if err := c.do(t.Context(), http.MethodPost, "/plugins/wasm/swap", body, nil); err == nil {
			t.Errorf("%v was accepted", body)
		}
	}
}
