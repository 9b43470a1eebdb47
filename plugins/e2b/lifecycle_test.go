package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/e2b/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

func apiError(status int, message string) envdfake.Fault {
	return envdfake.Fault{Status: status, Body: fmt.Sprintf(`{"code":%d,"message":%q}`, status, message)}
}

// TestLookingWakesNothing: nothing but Connect asks the provider to connect, and no
// look at a sandbox resumes or extends it.
func TestLookingWakesNothing(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Park(ref.ID)
	r.Requests()
	ctx := t.Context()
	_, _ = r.Get(ctx, ref)
	_, _ = r.List(ctx, backend.ListFilter{Config: "main"})
	_, _ = r.Stat(ctx, ref, "/mnt/data")
	_, _ = r.KeepAlive(ctx, ref, time.Hour)
	_, _ = r.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref})
	_, _ = r.DialPort(ctx, ref, 80)
	_, _ = r.Snapshot(ctx, ref, "x", nil)
	for _, call := range r.Calls() {
		if strings.Contains(call, "connect") || strings.Contains(call, "resume") {
			t.Errorf("looking made the call %s", call)
		}
	}
	if got := r.States()[ref.ID]; got != "paused" {
		t.Errorf("the sandbox is %s", got)
	}
}

// TestConnect is the table of what a provider says when a sandbox is connected to: the
// kind, and whether anybody may replace it.
func TestConnect(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	connect := sandboxPath(ref, "/connect")
	get := sandboxPath(ref, "")
	absent := `sandbox "x" doesn't exist`
	for name, c := range map[string]struct {
		faults []envdfake.Fault
		kind   backend.Kind
		gone   bool
	}{
		"running":                       {nil, "", false},
		"absent twice":                  {[]envdfake.Fault{remotetest.At("POST", connect, apiError(404, absent)), remotetest.At("GET", get, apiError(404, absent))}, backend.KindNotFound, true},
		"absent, but described":         {[]envdfake.Fault{remotetest.At("POST", connect, apiError(404, absent))}, backend.KindUnavailable, false},
		"terminal, but described":       {[]envdfake.Fault{remotetest.At("POST", connect, apiError(410, "gone"))}, backend.KindUnavailable, false},
		"terminal twice":                {[]envdfake.Fault{remotetest.At("POST", connect, apiError(410, "gone")), remotetest.At("GET", get, apiError(410, "gone"))}, backend.KindTerminal, true},
		"a route that is not there":     {[]envdfake.Fault{remotetest.At("POST", "*", envdfake.Fault{Status: 404, Times: 2})}, backend.KindUnsupported, false},
		"a page":                        {[]envdfake.Fault{remotetest.At("POST", connect, envdfake.Fault{Status: 200, Body: "<html>log in</html>"})}, backend.KindInternal, false},
		"internal":                      {[]envdfake.Fault{remotetest.At("POST", connect, apiError(500, "sandbox not found"))}, backend.KindUnavailable, false},
		"bad gateway":                   {[]envdfake.Fault{remotetest.At("POST", connect, envdfake.Fault{Status: 502, Body: "<html>bad gateway</html>"})}, backend.KindUnavailable, false},
		"refused":                       {[]envdfake.Fault{remotetest.At("POST", connect, apiError(401, "bad key"))}, backend.KindAuthentication, false},
		"forbidden":                     {[]envdfake.Fault{remotetest.At("POST", connect, apiError(403, "team is blocked"))}, backend.KindAuthentication, false},
		"rate limit":                    {[]envdfake.Fault{remotetest.At("POST", connect, apiError(429, "too many"))}, backend.KindCapacity, false},
		"rate limit that says when":     {[]envdfake.Fault{remotetest.At("POST", connect, envdfake.Fault{Status: 429, Header: map[string]string{"Retry-After": "1"}})}, "", false},
		"in transition for a moment":    {[]envdfake.Fault{remotetest.At("POST", connect, withTimes(apiError(409, "pausing"), 2))}, "", false},
		"in transition for ever":        {[]envdfake.Fault{remotetest.At("POST", connect, withTimes(apiError(409, "pausing"), -1))}, backend.KindConflict, false},
		"cut":                           {[]envdfake.Fault{remotetest.At("POST", connect, envdfake.Fault{Reset: true})}, backend.KindUnavailable, false},
		"gateway timeout":               {[]envdfake.Fault{remotetest.At("POST", connect, apiError(504, "late"))}, backend.KindTimeout, false},
		"description fails":             {[]envdfake.Fault{remotetest.At("GET", get, withTimes(apiError(500, "x"), -1))}, backend.KindUnavailable, false},
		"description fails for a while": {[]envdfake.Fault{remotetest.At("GET", get, withTimes(apiError(503, "x"), 2))}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range c.faults {
				r.Script.Add(f)
			}
			defer r.Script.Clear()
			sb, err := r.Connect(t.Context(), ref)
			if c.kind != "" {
				remotetest.Kind(t, "Connect", err, c.kind, c.gone)
			} else if err != nil || sb.State != backend.StateRunning {
				t.Errorf("Connect = %+v, %v", sb, err)
			}
			// Whatever was said, the sandbox is still there and can be used.
			r.Script.Clear()
			if _, err := r.Connect(t.Context(), ref); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func withTimes(f envdfake.Fault, n int) envdfake.Fault {
	f.Times = n
	return f
}

// TestDelete: gone is gone, doubt is an error, and nothing is resumed to be ended.
func TestDelete(t *testing.T) {
	r := rig(t, nil)
	for name, c := range map[string]struct {
		prepare func(backend.Ref)
		fault   *envdfake.Fault
		kind    backend.Kind
	}{
		"running":            {nil, nil, ""},
		"paused":             {func(ref backend.Ref) { r.Park(ref.ID) }, nil, ""},
		"gone":               {func(ref backend.Ref) { r.Vanish(ref.ID) }, nil, ""},
		"terminal":           {nil, &envdfake.Fault{Status: 410, Body: `{"code":410,"message":"gone"}`}, ""},
		"a missing route":    {nil, &envdfake.Fault{Status: 404}, backend.KindUnsupported},
		"conflict":           {nil, &envdfake.Fault{Status: 409, Body: `{"code":409,"message":"snapshotting"}`}, backend.KindConflict},
		"internal":           {nil, &envdfake.Fault{Status: 500, Body: `{"code":500,"message":"sandbox not found"}`}, backend.KindUnavailable},
		"somebody's gateway": {nil, &envdfake.Fault{Status: 403, Body: "<html>no</html>"}, backend.KindAuthentication},
	} {
		t.Run(name, func(t *testing.T) {
			ref := r.Make("s-" + name)
			if c.prepare != nil {
				c.prepare(ref)
			}
			if c.fault != nil {
				r.Script.Add(remotetest.At("DELETE", sandboxPath(ref, ""), *c.fault))
			}
			defer r.Script.Clear()
			r.Requests()
			err := r.Delete(t.Context(), ref)
			if c.kind == "" && err != nil {
				t.Errorf("Delete: %v", err)
			} else if c.kind != "" {
				remotetest.Kind(t, "Delete", err, c.kind, false)
			}
			if calls := r.Calls(); slices.ContainsFunc(calls, func(s string) bool { return strings.Contains(s, "connect") }) {
				t.Errorf("to be deleted, it was woken: %v", calls)
			}
		})
	}
}

// TestKeepAlive: the end moves away and never closer, up to what the provider allows.
func TestKeepAlive(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	began := r.Now()
	ends := func() time.Duration { return r.End(ref.ID).Sub(began).Round(time.Second) }
	for _, c := range []struct{ ttl, want time.Duration }{
		{time.Minute, 5 * time.Minute}, // it had more
		{10 * time.Minute, 10 * time.Minute},
		{2 * time.Minute, 10 * time.Minute},
	} {
		got, err := r.KeepAlive(t.Context(), ref, c.ttl)
		if err != nil || ends() != c.want || got.Sub(began).Round(time.Second) != c.want {
			t.Errorf("KeepAlive(%v): ends after %v, said %v, %v; want %v", c.ttl, ends(), got.Sub(began), err, c.want)
		}
	}
	r.Set(func(q *controlfake.Quirks) { q.MaxTimeout = 1800 })
	if got, err := r.KeepAlive(t.Context(), ref, time.Hour); err != nil || got.Sub(began).Round(time.Second) != 30*time.Minute {
		t.Errorf("beyond the plan: %v, %v", got.Sub(began), err)
	}
	// Connecting extends as well, and shortens nothing.
	if _, err := r.Connect(t.Context(), ref); err != nil || ends() != 30*time.Minute {
		t.Errorf("after Connect it ends after %v, %v", ends(), err)
	}
	// A paused one is there, although the provider says that it is not.
	r.Park(ref.ID)
	_, err := r.KeepAlive(t.Context(), ref, time.Hour)
	remotetest.Kind(t, "KeepAlive of a paused sandbox", err, backend.KindConflict, false)
	r.Vanish(ref.ID)
	_, err = r.KeepAlive(t.Context(), ref, time.Hour)
	remotetest.Kind(t, "KeepAlive of an absent sandbox", err, backend.KindNotFound, true)
}

// TestKeepAliveRace: a sandbox that pauses between the look and the call.
func TestKeepAliveRace(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Script.Add(remotetest.At("POST", sandboxPath(ref, "/timeout"), apiError(404, "sandbox not found")))
	_, err := r.KeepAlive(t.Context(), ref, time.Hour)
	remotetest.Kind(t, "KeepAlive", err, backend.KindUnavailable, false)
}

// TestExpiry: what the provider does by itself is seen as what it is.
func TestExpiry(t *testing.T) {
	r := rig(t, nil)
	killed := r.Make("killed")
	spec := remotetest.Spec("paused")
	spec.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: 10 * time.Minute, Action: backend.TimeoutPause}
	paused, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r.Advance(time.Hour)
	_, err = r.Stat(t.Context(), killed, "/mnt/data")
	remotetest.Kind(t, "Stat in a sandbox that has ended", err, backend.KindNotFound, true)
	_, err = r.Stat(t.Context(), paused.Ref, "/mnt/data")
	remotetest.Kind(t, "Stat in a paused sandbox", err, backend.KindConflict, false)
	sb, err := r.Connect(t.Context(), paused.Ref)
	if err != nil || sb.State != backend.StateRunning {
		t.Fatalf("Connect = %+v, %v", sb, err)
	}
	// It was made with ten minutes, and a process that never made it knows that.
	r.Restart()
	r.Park(paused.ID)
	began := r.Now()
	if _, err := r.Connect(t.Context(), paused.Ref); err != nil || r.End(paused.ID).Sub(began).Round(time.Minute) != 10*time.Minute {
		t.Errorf("resumed for %v, %v", r.End(paused.ID).Sub(began), err)
	}
}

// TestVersions: servers of one version only.
func TestVersions(t *testing.T) {
	r := rig(t, nil)
	r.Set(func(q *controlfake.Quirks) { q.NoV1 = true })
	ref := r.Make("s")
	if _, err := r.Connect(t.Context(), ref); err != nil {
		t.Errorf("Connect: %v", err)
	}
	r.Requests()
	if _, err := r.Connect(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if calls := r.Calls(); slices.Contains(calls, "POST "+sandboxPath(ref, "/connect")) {
		t.Errorf("the version is not remembered: %v", calls)
	}
	r.Set(func(q *controlfake.Quirks) { q.NoV2 = true })
	_, err := r.Connect(t.Context(), ref)
	remotetest.Kind(t, "Connect without a route", err, backend.KindUnsupported, false)
	r.Restart()
	_, err = r.Create(t.Context(), remotetest.Spec("t"))
	remotetest.Kind(t, "Create without a route", err, backend.KindUnsupported, false)
}

// TestListings: every page, and no listing is mistaken for a whole one.
func TestListings(t *testing.T) {
	r := rig(t, nil, func(o *controlfake.Options) { o.PageSize = 2 })
	var refs []backend.Ref
	for i := range 5 {
		refs = append(refs, r.Make(fmt.Sprint("s", i)))
	}
	r.Park(refs[3].ID)
	filter := backend.ListFilter{Config: "main"}
	if list, err := r.List(t.Context(), filter); err != nil || len(list) != 5 {
		t.Errorf("%d of 5 sandboxes are listed: %v", len(list), err)
	}
	if list, err := r.List(t.Context(), backend.ListFilter{Config: "main", States: []backend.State{backend.StatePaused}}); err != nil || len(list) != 1 {
		t.Errorf("%d of 1 paused sandboxes are listed: %v", len(list), err)
	}
	r.Set(func(q *controlfake.Quirks) { q.IgnoreFilter = true })
	if list, err := r.List(t.Context(), backend.ListFilter{Config: "main", Session: "s1"}); err != nil || len(list) != 1 || list[0].ID != refs[1].ID {
		t.Errorf("a server that ignores the filter: %+v, %v", list, err)
	}
	r.Set(func(q *controlfake.Quirks) { q.RepeatPages = true })
	if list, err := r.List(t.Context(), filter); err == nil || backend.ProvesGone(err) {
		t.Errorf("a server that repeats pages: %d sandboxes, %v", len(list), err)
	}
	_, err := r.Create(t.Context(), remotetest.Spec("s0"))
	if err == nil {
		t.Error("a session has a second sandbox, since the first could not be listed")
	}
}

// TestTokens: a refused token is looked up again, and a sandbox of an earlier process
// is reached.
func TestTokens(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Restart()
	if _, err := r.Stat(t.Context(), ref, "/mnt/data"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	// Replies to connecting without tokens leave what is known.
	r.Set(func(q *controlfake.Quirks) { q.SparseConnect = true })
	if _, err := r.Connect(t.Context(), ref); err != nil {
		t.Errorf("Connect: %v", err)
	}
	if _, err := r.Stat(t.Context(), ref, "/mnt/data"); err != nil {
		t.Errorf("after a reply without tokens: %v", err)
	}
}

// TestPorts: ports other than the daemon's need the traffic token, which a process that
// did not make the sandbox gets by connecting.
func TestPorts(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Restart()
	r.Machine(ref.ID).Handle(8080, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }))
	conn, err := r.DialPort(t.Context(), ref, 8080)
	if err != nil {
		t.Fatalf("DialPort: %v", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if body, _ := io.ReadAll(reply.Body); reply.StatusCode != http.StatusOK || string(body) != "here" {
		t.Errorf("the port answers %d %q", reply.StatusCode, body)
	}
	_, traffic := r.Stand.Tokens(ref.ID)
	if traffic == "" {
		t.Fatal("the fake issued no traffic token: the test shows nothing")
	}
}

// TestOthers: a sandbox of nobody here, and one of another config of the same account,
// are absent, whatever is done to them.
func TestOthers(t *testing.T) {
	r := rig(t, nil)
	other := remote.New(remote.Plugin{
		Name: name, Sleep: r.Plugin.Sleep,
		Open: func(raw json.RawMessage) (*remote.Config, error) { return dialect.Open(name, raw) },
	})
	defer other.Close()
	if err := other.OpenConfig(t.Context(), "other", r.Raw); err != nil {
		t.Fatal(err)
	}
	ref := r.Make("s")
	foreign := backend.Ref{Config: "other", ID: ref.ID}
	ctx := context.WithoutCancel(t.Context())
	_, err := other.Connect(ctx, foreign)
	remotetest.Kind(t, "Connect", err, backend.KindNotFound, true)
	remotetest.Kind(t, "Pause", other.Pause(ctx, foreign), backend.KindNotFound, true)
	_, err = other.KeepAlive(ctx, foreign, time.Hour)
	remotetest.Kind(t, "KeepAlive", err, backend.KindNotFound, true)
	_, err = other.Snapshot(ctx, foreign, "x", nil)
	remotetest.Kind(t, "Snapshot", err, backend.KindNotFound, true)
	if err := other.Delete(ctx, foreign); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if r.States()[ref.ID] != "running" {
		t.Errorf("another config changed the sandbox: %v", r.States())
	}
}

// TestWarmConnect: what a run costs before it begins. A sandbox that runs is connected
// to and described, its daemon is not asked, and no connection is thrown away.
func TestWarmConnect(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	calls := func(connect bool) (control, daemon int) {
		t.Helper()
		r.Requests()
		before := len(r.Machine(ref.ID).Requests())
		if connect {
			if _, err := r.Connect(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		return len(r.Requests()), len(r.Machine(ref.ID).Requests()) - before
	}
	if control, daemon := calls(true); control != 2 || daemon != 0 {
		t.Errorf("connecting to a running sandbox makes %d calls, and %d to its daemon", control, daemon)
	}
	r.Park(ref.ID)
	if control, daemon := calls(true); control != 2 || daemon == 0 {
		t.Errorf("waking a sandbox makes %d calls, and %d to its daemon", control, daemon)
	}
}

// TestAmbiguousGateway: the gateway says "not found" of what is paused, of what is gone
// and, for a moment, of what runs. The control plane decides, and only its word counts.
func TestAmbiguousGateway(t *testing.T) {
	r := rig(t, nil)
	lost := envdfake.Fault{Status: 502, Body: `{"sandboxId":"x","message":"The sandbox was not found","code":502}`, Times: -1}
	for name, c := range map[string]struct {
		do   func(backend.Ref)
		kind backend.Kind
		gone bool
	}{
		"running": {func(backend.Ref) {}, backend.KindUnavailable, false},
		"paused":  {func(ref backend.Ref) { r.Park(ref.ID) }, backend.KindConflict, false},
		"gone":    {func(ref backend.Ref) { r.Vanish(ref.ID) }, backend.KindNotFound, true},
		"unknown": {func(ref backend.Ref) {
			r.Script.Add(remotetest.At("GET", sandboxPath(ref, ""), withTimes(apiError(500, "sandbox not found"), -1)))
		}, backend.KindUnavailable, false},
		"wrong key": {func(ref backend.Ref) {
			r.Script.Add(remotetest.At("GET", sandboxPath(ref, ""), withTimes(apiError(401, "bad key"), -1)))
		}, backend.KindUnavailable, false}, // nobody could be asked: what the gateway said stays
	} {
		t.Run(name, func(t *testing.T) {
			ref := r.Make("s-" + name)
			r.GatewayScript.Add(lost)
			defer r.GatewayScript.Clear()
			defer r.Script.Clear()
			c.do(ref)
			_, err := r.Stat(t.Context(), ref, "/mnt/data")
			remotetest.Kind(t, "Stat", err, c.kind, c.gone)
		})
	}
}
