package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// building is the part of a config about templates.
var building = map[string]any{"registry_username": "u", "registry_password": "pw_canary77", "build": map[string]any{
	"name": "caisson", "image": "registry.example/image:1",
	"run": []string{"pip install x"}, "start_command": "true", "cpus": 4, "memory_mb": 2048,
}}

// TestTemplates: what is there decides what ensuring it does.
func TestTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		status, reason string
		tagged         bool
		before         backend.TemplateStatus
		builds         bool
	}{
		"absent":   {builds: true},
		"ready":    {"ready", "", true, backend.TemplateReady, false},
		"building": {"building", "", true, backend.TemplateBuilding, false},
		"failed":   {"error", "step 2 failed", true, backend.TemplateFailed, true},
		"untagged": {"ready", "", false, backend.TemplateUntagged, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig(t, building)
			r.Set(func(q *controlfake.Quirks) { q.NoTemplateV2 = name == "building" })
			id := ""
			if c.status != "" {
				id = r.AddTemplate("caisson", c.status, c.reason, c.tagged)
			}
			all, err := r.ListTemplates(t.Context(), "main")
			if err != nil || len(all) != btoi(c.status != "") {
				t.Fatalf("%v, %v", all, err)
			}
			if c.status != "" && (all[0].Status != c.before || all[0].Error != c.reason || all[0].Name != "caisson") {
				t.Errorf("listed as %+v, want %s %q", all[0], c.before, c.reason)
			}
			r.Requests()
			got, err := r.EnsureTemplate(t.Context(), "main")
			if err != nil || c.builds && got.Status != backend.TemplateBuilding || !c.builds && got.Status != c.before || id != "" && got.ID != id {
				t.Errorf("EnsureTemplate = %+v, %v; it was %s", got, err, id)
			}
			if built := slices.Contains(r.Calls(), "POST /v3/templates"); built != c.builds {
				t.Errorf("a build was started: %v, want %v", built, c.builds)
			}
			if !c.builds {
				return
			}
			r.Advance(2 * time.Minute)
			if got, err = r.EnsureTemplate(t.Context(), "main"); err != nil || got.Status != backend.TemplateReady {
				t.Errorf("two minutes later: %+v, %v", got, err)
			}
			spec := remotetest.Spec("s")
			spec.Template = "caisson"
			if _, err := r.Create(t.Context(), spec); err != nil {
				t.Errorf("Create from it by its bare name: %v", err)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestReplaceTemplate: the new one is built beside the old, and what is superseded goes
// only when told to, and only ours.
func TestReplaceTemplate(t *testing.T) {
	r := rig(t, building)
	ctx := t.Context()
	old := r.AddTemplate("caisson", "ready", "", true)
	r.AddTemplate("caisson-not-ours", "ready", "", true)
	next, err := r.ReplaceTemplate(ctx, "main")
	if err != nil || next.ID == old || next.Name == "caisson" {
		t.Fatalf("ReplaceTemplate = %+v, %v", next, err)
	}
	r.Advance(2 * time.Minute)
	if all, err := r.ListTemplates(ctx, "main"); err != nil || len(all) != 2 {
		t.Errorf("there are %+v, %v", all, err)
	}
	spec := remotetest.Spec("s")
	spec.Template = old
	sb, err := r.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	err = r.DeleteSuperseded(ctx, "main", []string{next.ID})
	remotetest.Kind(t, "DeleteSuperseded of one in use", err, backend.KindConflict, false)
	if err := r.Delete(ctx, sb.Ref); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteSuperseded(ctx, "main", []string{next.ID}); err != nil {
		t.Errorf("DeleteSuperseded: %v", err)
	}
	if got, want := r.TemplateNames(), []string{"base", "caisson-not-ours", next.Name}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// TestBuildFails: a build that cannot be started leaves no empty template, and no
// password in an error.
func TestBuildFails(t *testing.T) {
	r := rig(t, building)
	r.Script.Add(envdfake.Fault{
		Method: "POST", Path: "/v2/templates/*", Status: 400, Body: `{"code":400,"message":"bad registry credentials u:pw_canary77"}`,
	})
	_, err := r.EnsureTemplate(t.Context(), "main")
	remotetest.Kind(t, "EnsureTemplate", err, backend.KindInvalidRequest, false)
	if strings.Contains(err.Error(), "pw_canary77") {
		t.Errorf("the error holds the password: %v", err)
	}
	if got := r.TemplateNames(); slices.Contains(got, "caisson") {
		t.Errorf("left: %q", got)
	}
	_, err = rig(t, nil).EnsureTemplate(t.Context(), "main")
	remotetest.Kind(t, "EnsureTemplate without a build", err, backend.KindUnsupported, false)
}

// TestSnapshots: names carry what snapshots are found by, and only ours are touched.
func TestSnapshots(t *testing.T) {
	r := rig(t, nil, func(o *controlfake.Options) { o.PageSize = 1 })
	ctx := t.Context()
	ref := r.Make("s")
	many := map[string]string{}
	for _, k := range strings.Split("abcdefghijklmnop", "") {
		many[k] = k
	}
	_, err := r.Snapshot(ctx, ref, "x", many)
	remotetest.Kind(t, "Snapshot with more labels than a name holds", err, backend.KindInvalidRequest, false)
	var ids []string
	for _, label := range []string{"one", "two"} {
		s, err := r.Snapshot(ctx, ref, "Before the Change!", map[string]string{"l": label, "both": ""})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	r.Restart()
	for _, c := range []struct {
		labels map[string]string
		want   []string
	}{
		{nil, ids},
		{map[string]string{"both": ""}, ids},
		{map[string]string{"l": "two"}, ids[1:]},
		{map[string]string{"l": "two", "both": "x"}, nil},
	} {
		list, err := r.ListSnapshots(ctx, "main", c.labels)
		var got []string
		for _, s := range list {
			got = append(got, s.ID)
			if s.Name != "before-the-change" {
				t.Errorf("it is called %q", s.Name)
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("with %v: %q, want %q (%v)", c.labels, got, c.want, err)
		}
	}
	r.Requests()
	if err := r.DeleteSnapshot(ctx, "main", ids[0]); err != nil {
		t.Error(err)
	}
	if calls := r.Calls(); !strings.Contains(calls[len(calls)-1], "%2F") || !strings.Contains(calls[len(calls)-1], "%3Adefault") {
		t.Errorf("the id is not escaped: %s", calls[len(calls)-1])
	}
	for _, id := range []string{ids[0], "team/others:default", "../sandboxes/" + ref.ID, ""} {
		if err := r.DeleteSnapshot(ctx, "main", id); err != nil {
			t.Errorf("DeleteSnapshot(%q): %v", id, err)
		}
	}
	// One that the sandbox is busy with something else for can be asked for again.
	for status, kind := range map[int]backend.Kind{409: backend.KindConflict, 503: backend.KindUnavailable} {
		r.Script.Add(remotetest.At("POST", sandboxPath(ref, "/snapshots"), apiError(status, "busy")))
		_, err := r.Snapshot(ctx, ref, "x", nil)
		remotetest.Kind(t, "Snapshot of a busy sandbox", err, kind, false)
	}
	// From a snapshot: the environment is not sent, and programs have it all the same.
	spec := remotetest.Spec("from")
	spec.Snapshot, spec.Env = ids[1], map[string]string{"FROM_SPEC": "here"}
	sb, err := r.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Exec(ctx, backend.ExecRequest{Ref: sb.Ref, Argv: []string{"echo $FROM_SPEC"}, Shell: true})
	if err != nil || string(res.Stdout) != "here\n" {
		t.Errorf("the environment is %q, %v", res.Stdout, err)
	}
}
