package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// rig is a backend on a provider of its own.
func rig(t testing.TB, more map[string]any, change ...func(*controlfake.Options)) *remotetest.Rig {
	t.Helper()
	return remotetest.Kept(t, controlfake.Cube, plugin(), more, change...)
}

// TestCreateBody: both forms of the lifecycle, the switch in its one spelling, and a
// timeout that is always said.
func TestCreateBody(t *testing.T) {
	r := rig(t, nil)
	for name, c := range map[string]struct {
		policy backend.TimeoutPolicy
		want   string
	}{
		"default": {backend.TimeoutPolicy{}, `{}`},
		"never":   {backend.TimeoutPolicy{Mode: backend.TimeoutNever}, `{"timeout":-1}`},
		"paused when idle": {
			backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Minute, Action: backend.TimeoutPause, AutoResume: true},
			`{"timeout":60,"autoPause":true,"autoResume":true,"lifecycle":{"onTimeout":"pause","autoResume":true}}`,
		},
	} {
		spec := remotetest.Spec("s-" + name)
		spec.Timeout = c.policy
		r.Requests()
		if _, err := r.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		got := r.Said("POST", "/sandboxes")
		delete(got, "metadata")
		var want map[string]any
		base := `{"templateID":"base","timeout":1800,"autoPause":false,"autoResume":false,"lifecycle":{"onTimeout":"kill","autoResume":false},` +
			`"allow_internet_access":false,"network":{"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"]}}`
		for _, text := range []string{base, c.want} {
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the body is %v, want %v", name, got, want)
		}
	}
}

// TestRules: secrets are set on allowed requests over https only, and no error repeats
// one.
func TestRules(t *testing.T) {
	r := rig(t, nil)
	for rules, want := range map[string]string{
		`[{"name":"a","match":{"host":"api.example.com","scheme":"https"},"action":{"allow":true,"inject":[{"header":"A","secret":"canary"}]}}]`: "",
		`[{"name":"a","match":{},"action":{"allow":false}}]`:                                                                           "",
		`[{"name":"a","match":{},"action":{"allow":false,"inject":[{"header":"A","secret":"canary"}]}}]`:                               "inject",
		`[{"name":"a","match":{"scheme":"http"},"action":{"allow":true,"inject":[{"header":"A","secret":"canary"}]}}]`:                 "https only",
		`[{"name":"a","match":{},"action":{"allow":true,"audit":"canary"}}]`:                                                           "audit",
		`[{"name":"a","match":{},"action":{"allow":true,"inject":[{"header":"A","secret":"` + strings.Repeat("canary", 400) + `"}]}}]`: "inject[0]",
		`[{"match":{},"action":{"allow":true}}]`:                                                                                       "name",
		`[{"name":"a","match":{},"action":{"deny":true}}]`:                                                                             "must be a list",
		`{}`: "must be a list",
	} {
		spec := remotetest.Spec("s")
		spec.Network.Rules = []byte(rules)
		sb, err := r.Create(t.Context(), spec)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%.80s: %v, want %q", rules, err, want)
		}
		if err == nil {
			_ = r.Delete(t.Context(), sb.Ref)
		}
	}
}

// TestTokenOnce: the token that opens a sandbox is told once. It is kept, in a file
// that only the plugin can read, outlives the process, and goes with the sandbox.
func TestTokenOnce(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	_, traffic := r.Stand.Tokens(ref.ID)
	files, _ := filepath.Glob(filepath.Join(r.Plugin.Dir, "sandboxes", "*", "*.json"))
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	text, err := os.ReadFile(files[0])
	info, statErr := os.Stat(files[0])
	if err != nil || statErr != nil || !strings.Contains(string(text), traffic) || info.Mode().Perm() != 0o600 {
		t.Errorf("the record is %s, %v, mode %v", text, err, info.Mode())
	}
	r.Restart()
	if _, err := r.Stat(t.Context(), ref, "/mnt/data"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	// Without the record, the sandbox is locked and not lost.
	r.Restart()
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	_, err = r.Stat(t.Context(), ref, "/mnt/data")
	remotetest.Kind(t, "Stat without a token", err, backend.KindAuthentication, false)
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Restart()
	if err := r.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(r.Plugin.Dir, "sandboxes", "*", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTokenHandedBack: a host that kept the token hands it back to a plugin whose
// records are gone, also one that is asleep; without it the sandbox is locked and not
// lost.
func TestTokenHandedBack(t *testing.T) {
	r := rig(t, nil)
	sb, err := r.Create(t.Context(), remotetest.Spec("s"))
	if err != nil || sb.Token == "" {
		t.Fatalf("Create: token %q, %v", sb.Token, err)
	}
	forgetful := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(r.Plugin.Dir, "sandboxes")); err != nil {
			t.Fatal(err)
		}
		r.Restart()
	}
	stat := func() error { _, err := r.Stat(t.Context(), sb.Ref, "/mnt/data"); return err }
	for _, asleep := range []bool{false, true} {
		forgetful()
		if asleep {
			r.Park(sb.ID)
			_, err := r.Connect(t.Context(), sb.Ref)
			remotetest.Kind(t, "Connect without a token", err, backend.KindAuthentication, false)
			r.Park(sb.ID)
		} else {
			remotetest.Kind(t, "Stat without a token", stat(), backend.KindAuthentication, false)
		}
		_, err := r.ConnectToken(t.Context(), sb.Ref, "not_this_one")
		remotetest.Kind(t, "ConnectToken with a wrong token", err, backend.KindAuthentication, false)
		if left, _ := filepath.Glob(filepath.Join(r.Plugin.Dir, "sandboxes", "*", "*")); len(left) > 0 {
			t.Errorf("a wrong token was recorded: %q", left)
		}
		got, err := r.ConnectToken(t.Context(), sb.Ref, sb.Token)
		if err != nil || got.Token != sb.Token {
			t.Fatalf("ConnectToken: %v", err)
		}
		if err := stat(); err != nil {
			t.Errorf("with the token back: %v", err)
		}
		r.Restart() // it is recorded again
		if err := stat(); err != nil {
			t.Errorf("with the token back, after a restart: %v", err)
		}
	}
	// A wrong one does not take the place of the right one, here or in the record.
	for range 2 {
		if got, err := r.ConnectToken(t.Context(), sb.Ref, "not_this_one"); err != nil || got.Token != sb.Token {
			t.Errorf("with a wrong token beside the right one: token %q, %v", got.Token, err)
		}
		if err := stat(); err != nil {
			t.Errorf("after a wrong token: %v", err)
		}
		r.Restart()
	}
	// What a version of the provider tells when it is connected to comes before it.
	r.Script.Add(remotetest.At("POST", "/sandboxes/"+sb.ID+"/connect", envdfake.Fault{
		Status: 200, Header: map[string]string{"Content-Type": "application/json"},
		Body: `{"sandboxID":"` + sb.ID + `","templateID":"base","trafficAccessToken":"newer"}`,
	}))
	if got, err := r.ConnectToken(t.Context(), sb.Ref, sb.Token); err != nil || got.Token != "newer" {
		t.Errorf("a token that was told again is %q: %v", got.Token, err)
	}
	if r.Log.Holds(sb.Token, "not_this_one", "newer") {
		t.Error("the log holds a token")
	}
}

// TestForgottenRecords: records of sandboxes that ended by themselves go, a day later
// and on the provider's word only.
func TestForgottenRecords(t *testing.T) {
	r := rig(t, nil)
	gone, kept := r.Make("gone"), r.Make("kept")
	r.Vanish(gone.ID)
	r.Set(func(q *controlfake.Quirks) { q.HidePaused = true })
	r.Park(kept.ID)
	records := func() int {
		files, _ := filepath.Glob(filepath.Join(r.Plugin.Dir, "sandboxes", "*", "*.json"))
		return len(files)
	}
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {25 * time.Hour, 1}} {
		old := time.Now().Add(-c.after)
		files, _ := filepath.Glob(filepath.Join(r.Plugin.Dir, "sandboxes", "*", "*.json"))
		for _, f := range files {
			if err := os.Chtimes(f, old, old); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.List(t.Context(), backend.ListFilter{Config: "main"}); err != nil {
			t.Fatal(err)
		}
		if records() != c.left {
			t.Errorf("after %v there are %d records, want %d", c.after, records(), c.left)
		}
	}
}

// TestDroppedEnv: an environment that the provider does not keep reaches programs all
// the same, also after a restart.
func TestDroppedEnv(t *testing.T) {
	r := rig(t, nil)
	r.Set(func(q *controlfake.Quirks) { q.DropEnv = true })
	spec := remotetest.Spec("s")
	spec.Env = map[string]string{"FROM_SPEC": "here", "BOTH": "spec"}
	sb, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r.Restart()
	res, err := r.Exec(t.Context(), backend.ExecRequest{
		Ref: sb.Ref, Argv: []string{"echo $FROM_SPEC $BOTH"}, Shell: true, Env: map[string]string{"BOTH": "call"},
	})
	if err != nil || string(res.Stdout) != "here call\n" {
		t.Errorf("the environment is %q, %v", res.Stdout, err)
	}
}

// TestNoDaemon: a template whose daemon never serves is named, and nothing is left.
func TestNoDaemon(t *testing.T) {
	r := rig(t, nil)
	r.GatewayScript.Add(envdfake.Fault{Path: "/health", Status: 404, Body: `{"error":"not found"}`, Times: 2})
	ref := r.Make("s") // a route that appears a moment later
	r.GatewayScript.Add(envdfake.Fault{Path: "/health", Status: 504, Body: "<html>504</html>", Times: 1})
	if _, err := r.Connect(t.Context(), ref); err != nil { // a stale one after a resume
		t.Errorf("Connect: %v", err)
	}
}

// TestGateway: what the gateway says is no proof; what the control plane says then is.
func TestGateway(t *testing.T) {
	r := rig(t, nil)
	for name, c := range map[string]struct {
		fault  *envdfake.Fault
		vanish bool
		kind   backend.Kind
		gone   bool
	}{
		"no route, and it runs":      {&envdfake.Fault{Status: 404, Body: `{"error":"not found"}`, Times: -1}, false, backend.KindUnavailable, false},
		"gone, and it runs":          {&envdfake.Fault{Status: 410, Body: `{"error":"gone"}`, Times: -1}, false, "", false},
		"gone, and it is":            {nil, true, backend.KindNotFound, true},
		"a token that is refused":    {&envdfake.Fault{Status: 403, Body: `{"error":"forbidden"}`, Times: -1}, false, backend.KindAuthentication, false},
		"a page instead of a stream": {&envdfake.Fault{Status: 200, Body: "<html>log in</html>", Times: -1}, false, backend.KindUnavailable, false},
		"a node that failed":         {&envdfake.Fault{Status: 503, Body: `{"error":"service unavailable"}`, Times: -1}, false, backend.KindUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := r.Make("s-" + name)
			if c.fault != nil {
				r.GatewayScript.Add(*c.fault)
			}
			defer r.GatewayScript.Clear()
			if c.vanish {
				r.Vanish(ref.ID)
			}
			_, err := r.Stat(t.Context(), ref, "/mnt/data")
			if c.kind == "" {
				if err == nil || backend.ProvesGone(err) {
					t.Errorf("Stat: %v", err)
				}
				return
			}
			remotetest.Kind(t, "Stat", err, c.kind, c.gone)
		})
	}
}

// TestControlErrors: answers that only this provider gives.
func TestControlErrors(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	path := "/sandboxes/" + ref.ID
	text := map[string]string{"Content-Type": "text/plain"}
	for name, c := range map[string]struct {
		fault envdfake.Fault
		kind  backend.Kind
	}{
		"plain text for bad JSON": {envdfake.Fault{Status: 422, Header: text, Body: "Failed to deserialize"}, backend.KindInvalidRequest},
		"an empty 404":            {envdfake.Fault{Status: 404}, backend.KindUnsupported},
		"a route timeout":         {envdfake.Fault{Status: 408}, backend.KindTimeout},
		"capacity as a conflict":  {envdfake.Fault{Status: 409, Body: `{"code":409,"message":"resume rejected by paused_resource_release_ratio policy"}`}, backend.KindCapacity},
		"not found inside a 500":  {envdfake.Fault{Status: 500, Body: `{"code":500,"message":"ret 130404: sandbox not found"}`}, backend.KindUnavailable},
		"not implemented":         {envdfake.Fault{Status: 501, Body: `{"code":501,"message":"x"}`}, backend.KindUnsupported},
		"a message as a detail":   {envdfake.Fault{Status: 400, Body: `{"detail":"bad"}`}, backend.KindInvalidRequest},
	} {
		c.fault.Times = 2 // where the second version of the route is tried too
		r.Script.Add(remotetest.At("POST", path+"/connect", c.fault))
		r.Script.Add(remotetest.At("POST", "/v2"+path+"/connect", c.fault))
		_, err := r.Connect(t.Context(), ref)
		remotetest.Kind(t, name, err, c.kind, false)
		r.Script.Clear()
	}
}

// TestNoKey: a deployment without keys is asked without one.
func TestNoKey(t *testing.T) {
	r := rig(t, map[string]any{"api_key": ""}, func(o *controlfake.Options) { o.APIKey = "" })
	r.Make("s")
	for _, q := range r.Requests() {
		if q.Header.Get("Authorization") != "" || q.Header.Get("X-Api-Key") != "" {
			t.Errorf("%s %s has credentials", q.Method, q.Path)
		}
	}
	// With one, both headers are sent: versions read different ones.
	r = rig(t, nil)
	r.Make("s")
	for _, q := range r.Requests() {
		if q.Path != "/health" && (q.Header.Get("Authorization") != "Bearer "+remotetest.Key || q.Header.Get("X-Api-Key") != remotetest.Key) {
			t.Errorf("%s %s lacks credentials", q.Method, q.Path)
		}
	}
}

// TestTemplates: built with the daemon's port and probe, rebuilt when it failed.
func TestTemplates(t *testing.T) {
	r := rig(t, map[string]any{"build": map[string]any{"name": "caisson", "image": "registry.example/i:1", "dns": []string{" 9.9.9.9", "", "9.9.9.9", "2620:fe::fe"}}})
	ctx := t.Context()
	got, err := r.EnsureTemplate(ctx, "main")
	if err != nil || got.Status != backend.TemplateBuilding {
		t.Fatalf("EnsureTemplate = %+v, %v", got, err)
	}
	body := r.Said("POST", "/templates")
	if want := []any{"9.9.9.9", "2620:fe::fe"}; !reflect.DeepEqual(body["dns"], want) || body["probePath"] != "/health" || body["writableLayerSize"] != "1G" {
		t.Errorf("the body is %v", body)
	}
	r.Advance(2 * time.Minute)
	if again, err := r.EnsureTemplate(ctx, "main"); err != nil || again.ID != got.ID || again.Status != backend.TemplateReady {
		t.Errorf("EnsureTemplate = %+v, %v", again, err)
	}
	failed := rig(t, map[string]any{"build": map[string]any{"name": "caisson", "image": "i"}})
	id := failed.AddTemplate("caisson", "error", "no such image", true)
	if all, err := failed.ListTemplates(ctx, "main"); err != nil || len(all) != 1 || all[0].Error != "no such image" {
		t.Errorf("ListTemplates = %+v, %v", all, err)
	}
	if got, err := failed.EnsureTemplate(ctx, "main"); err != nil || got.ID != id || !slices.Contains(failed.Calls(), "POST /templates/"+id) {
		t.Errorf("EnsureTemplate = %+v, %v", got, err)
	}
}
