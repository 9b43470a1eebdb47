package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestLostMetadata: a provider that forgets whose a sandbox is makes nobody lose it.
func TestLostMetadata(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Set(func(q *controlfake.Quirks) { q.LoseMetadata = true })
	r.Park(ref.ID)
	r.Restart()
	want := remotetest.Spec("s").Metadata
	if list, err := r.List(t.Context(), backend.ListFilter{Config: "main", Session: "s"}); err != nil || len(list) != 1 || !reflect.DeepEqual(list[0].Metadata, want) {
		t.Errorf("List = %+v, %v", list, err)
	}
	if sb, err := r.Connect(t.Context(), ref); err != nil || !reflect.DeepEqual(sb.Metadata, want) {
		t.Errorf("Connect = %+v, %v", sb, err)
	}
	// Without a record nobody knows, which is no proof of anything.
	r.Plugin.Dir = t.TempDir()
	r.Restart()
	_, err := r.Get(t.Context(), ref)
	remotetest.Kind(t, "Get without metadata and record", err, backend.KindUnavailable, false)
}

// TestListAbsence: a listing that leaves a sandbox out proves nothing.
func TestListAbsence(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Park(ref.ID)
	r.Set(func(q *controlfake.Quirks) { q.HidePaused = true })
	if sb, err := r.Get(t.Context(), ref); err != nil || sb.State != backend.StatePaused {
		t.Errorf("Get = %+v, %v", sb, err)
	}
	// Whoever has only the session's id finds it by what is recorded, also after a
	// restart, and the session gets no second sandbox.
	r.Restart()
	filter := backend.ListFilter{Config: "main", Session: "s"}
	if list, err := r.List(t.Context(), filter); err != nil || len(list) != 1 || list[0].ID != ref.ID || list[0].State != backend.StatePaused {
		t.Errorf("List = %+v, %v", list, err)
	}
	_, err := r.Create(t.Context(), remotetest.Spec("s"))
	remotetest.Kind(t, "Create", err, backend.KindConflict, false)
	sb, err := r.Connect(t.Context(), ref)
	if err != nil {
		t.Errorf("Connect: %v", err)
	}
	if _, traffic := r.Stand.Tokens(ref.ID); sb.Token != traffic || traffic == "" {
		t.Error("Connect does not return the token that bindings keep")
	}
	r.Vanish(ref.ID)
	if list, err := r.List(t.Context(), filter); err != nil || len(list) != 0 {
		t.Errorf("after it ended: %+v, %v", list, err)
	}
}

// TestFilters: old servers filter after they cut, so that everything is asked for and
// filtered here; both states are, since one alone may find nothing.
func TestFilters(t *testing.T) {
	r := rig(t, nil)
	ref := r.Make("s")
	r.Make("other")
	r.Park(ref.ID)
	r.Requests()
	list, err := r.List(t.Context(), backend.ListFilter{Config: "main", Session: "s", States: []backend.State{backend.StatePaused}})
	if err != nil || len(list) != 1 || list[0].ID != ref.ID {
		t.Errorf("List = %+v, %v", list, err)
	}
	for _, q := range r.Requests() {
		if strings.Contains(q.Query, "metadata") || !strings.Contains(q.Query, "state=running%2Cpaused") {
			t.Errorf("the query is %s", q.Query)
		}
	}
}
