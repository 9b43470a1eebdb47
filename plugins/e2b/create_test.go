package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// rig is a backend on a provider of its own.
func rig(t testing.TB, more map[string]any, change ...func(*controlfake.Options)) *remotetest.Rig {
	t.Helper()
	return remotetest.Kept(t, controlfake.E2B, plugin(), more, change...)
}

func sandboxPath(ref backend.Ref, rest string) string { return "/sandboxes/" + ref.ID + rest }

// TestCreateBody: nothing is left to the provider's defaults.
func TestCreateBody(t *testing.T) {
	r := rig(t, nil)
	for name, c := range map[string]struct {
		change func(*backend.CreateSpec)
		want   string // members of the body, others as in the first row
		err    backend.Kind
	}{
		"default": {nil, `{}`, ""},
		"environment": {
			func(s *backend.CreateSpec) { s.Env = map[string]string{"A": "b"} },
			`{"envVars":{"A":"b"}}`, "",
		},
		"paused when idle": {
			func(s *backend.CreateSpec) {
				s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: 90 * time.Second, Action: backend.TimeoutPause}
			},
			`{"timeout":90,"autoPause":true,"autoResume":{"enabled":false}}`, "",
		},
		"woken by traffic": {
			func(s *backend.CreateSpec) {
				s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Minute, Action: backend.TimeoutPause, AutoResume: true}
			},
			`{"timeout":60,"autoPause":true,"autoResume":{"enabled":true}}`, "",
		},
		"cut to the plan": {
			func(s *backend.CreateSpec) {
				s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: 24 * time.Hour, Action: backend.TimeoutKill}
			},
			`{"timeout":3600}`, "",
		},
		"never":   {func(s *backend.CreateSpec) { s.Timeout.Mode = backend.TimeoutNever }, "", backend.KindUnsupported},
		"at once": {func(s *backend.CreateSpec) { s.Timeout.Mode = backend.TimeoutAfter }, "", backend.KindInvalidRequest},
		"resumed after a kill": {
			func(s *backend.CreateSpec) {
				s.Timeout = backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Minute, Action: backend.TimeoutKill, AutoResume: true}
			}, "", backend.KindInvalidRequest,
		},
		"open network": {
			func(s *backend.CreateSpec) {
				s.Network = backend.Network{Mode: backend.NetworkOpen, Deny: []string{"10.0.0.0/8"}, PublicPorts: true}
			},
			`{"allow_internet_access":true,"network":{"allowPublicTraffic":true,"denyOut":["10.0.0.0/8"]}}`, "",
		},
		"allow list": {
			func(s *backend.CreateSpec) {
				s.Network = backend.Network{Mode: backend.NetworkClosed, Allow: []string{"192.0.2.1", "*.example.com"}}
			},
			`{"network":{"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"],"allowOut":["192.0.2.1","*.example.com"]}}`, "",
		},
		"a host denied": {func(s *backend.CreateSpec) {
			s.Network = backend.Network{Mode: backend.NetworkOpen, Deny: []string{"example.com"}}
		}, "", backend.KindUnsupported},
		"a host allowed in an open network": {func(s *backend.CreateSpec) {
			s.Network = backend.Network{Mode: backend.NetworkOpen, Allow: []string{"example.com"}}
		}, "", backend.KindInvalidRequest},
		"rules": {
			func(s *backend.CreateSpec) {
				s.Network = backend.Network{
					Mode: backend.NetworkClosed, Allow: []string{"api.example.com"},
					Rules: []byte(`{"api.example.com":[{"transform":{"headers":{"Authorization":"secret"}}}]}`),
				}
			},
			`{"network":{"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"],"allowOut":["api.example.com"],` +
				`"rules":{"api.example.com":[{"transform":{"headers":{"Authorization":"secret"}}}]}}}`, "",
		},
		"a rule whose host is not allowed": {func(s *backend.CreateSpec) {
			s.Network.Rules = []byte(`{"api.example.com":[{"transform":{"headers":{"A":"b"}}}]}`)
		}, "", backend.KindInvalidRequest},
		"a rule that is none": {func(s *backend.CreateSpec) { s.Network.Rules = []byte(`{"h":[{"transfrom":1}]}`) }, "", backend.KindInvalidRequest},
		"limits":              {func(s *backend.CreateSpec) { s.Limits.CPUs = 1 }, "", backend.KindUnsupported},
		"an entrypoint":       {func(s *backend.CreateSpec) { s.Entrypoint = []string{"x"} }, "", backend.KindUnsupported},
		"two origins":         {func(s *backend.CreateSpec) { s.Template, s.Snapshot = "a", "b" }, "", backend.KindInvalidRequest},
		"an absent template":  {func(s *backend.CreateSpec) { s.Template = "absent" }, "", backend.KindInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			spec := remotetest.Spec("s-" + name)
			if c.change != nil {
				c.change(&spec)
			}
			r.Requests()
			sb, err := r.Create(t.Context(), spec)
			if c.err != "" {
				remotetest.Kind(t, "Create", err, c.err, false)
				if c.err == backend.KindUnsupported && slices.Contains(r.Calls(), "POST /sandboxes") {
					t.Error("what cannot be done was asked for")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Delete(t.Context(), sb.Ref)
			got := r.Said("POST", "/sandboxes")
			delete(got, "metadata")
			want := map[string]any{}
			base := `{"templateID":"base","timeout":300,"secure":true,"autoPause":false,"allow_internet_access":false,` +
				`"network":{"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"]}}`
			for _, text := range []string{base, c.want} {
				if err := json.Unmarshal([]byte(text), &want); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(got, normal(want)) {
				t.Errorf("the body is %v, want %v", got, want)
			}
		})
	}
}

func normal(v map[string]any) map[string]any {
	text, _ := json.Marshal(v)
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return out
}

// TestMetadata: a fixed set of keys, with values that survive any number of decodings,
// and everything comes back from the provider alone.
func TestMetadata(t *testing.T) {
	r := rig(t, nil)
	spec := remotetest.Spec("s 1/ü&=")
	spec.Metadata.User, spec.Metadata.Tenant = "user", "p-looks like encoded"
	sb, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range r.Said("POST", "/sandboxes")["metadata"].(map[string]any) {
		for _, c := range k + v.(string) {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", c) {
				t.Errorf("metadata %q: %q", k, v)
			}
		}
		if !strings.HasPrefix(k, "caisson-") {
			t.Errorf("metadata key %q", k)
		}
	}
	r.Restart()
	list, err := r.List(t.Context(), backend.ListFilter{Config: "main", Session: spec.Session, Tenant: spec.Metadata.Tenant, Labels: spec.Metadata.Labels})
	if err != nil || len(list) != 1 || list[0].ID != sb.ID || !reflect.DeepEqual(list[0].Metadata, spec.Metadata) {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
}

// TestNoToken: without secure:true, or with an old template, a sandbox would be open to
// everybody. It is not kept, unless the operator says so.
func TestNoToken(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		r := rig(t, map[string]any{"allow_untokened": allowed})
		r.Set(func(q *controlfake.Quirks) { q.NoToken = true })
		_, err := r.Create(t.Context(), remotetest.Spec("s"))
		if allowed {
			if err != nil {
				t.Errorf("an operator who allows it: %v", err)
			}
			continue
		}
		remotetest.Kind(t, "Create without a token", err, backend.KindAuthentication, false)
		if left := r.States(); len(left) > 0 {
			t.Errorf("an open sandbox is left: %v", left)
		}
	}
}

// TestLostReply: a sandbox whose creation nobody heard of is found by its request, and
// either used or ended. No session ever has two.
func TestLostReply(t *testing.T) {
	cut := envdfake.Fault{Method: "POST", Path: "/sandboxes", Cut: 1}
	r := rig(t, nil)
	r.Script.Add(cut)
	sb, err := r.Create(t.Context(), remotetest.Spec("s"))
	if err != nil {
		t.Fatalf("Create whose reply is lost: %v", err)
	}
	if _, err := r.WriteFile(t.Context(), sb.Ref, "/mnt/data/f", backend.WriteOptions{}, strings.NewReader("x")); err != nil {
		t.Errorf("the sandbox is of no use: %v", err)
	}
	if left := r.States(); len(left) != 1 {
		t.Errorf("there are %v", left)
	}

	// Nobody waits any more: the request goes on at the provider.
	r.Script.Add(envdfake.Fault{Method: "POST", Path: "/sandboxes", Stall: 1})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Create(ctx, remotetest.Spec("gone"))
		done <- err
	}()
	for len(r.States()) < 2 {
		select {
		case err := <-done:
			t.Fatalf("Create ended early: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled Create succeeded")
	}
	if left := r.States(); len(left) != 1 {
		t.Errorf("a cancelled Create leaves %v", left)
	}
}

// TestFailedStart: a sandbox whose daemon never answers is ended, and the error says
// where to look.
func TestFailedStart(t *testing.T) {
	r := rig(t, nil)
	r.Set(func(q *controlfake.Quirks) { q.NotReady = 1 << 30 })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := r.Create(ctx, remotetest.Spec("s"))
	if err == nil || backend.ProvesGone(err) || !strings.Contains(err.Error(), "template") {
		t.Errorf("Create = %v", err)
	}
	if left := r.States(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// A daemon that takes a moment is waited for.
	r.Set(func(q *controlfake.Quirks) { q.NotReady = 3 })
	r.Make("s")
}

// TestTwoReplicas: of two that create the same session at once, one wins.
func TestTwoReplicas(t *testing.T) {
	r := rig(t, nil)
	other := remote.New(r.Plugin)
	defer other.Close()
	if err := other.OpenConfig(t.Context(), "main", r.Raw); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		spec := remotetest.Spec(fmt.Sprintf("s%d", round))
		errs := make(chan error, 2)
		for _, b := range []*remote.Backend{r.Backend, other} {
			go func() {
				_, err := b.Create(t.Context(), spec)
				errs <- err
			}()
		}
		won := 0
		for range 2 {
			if err := <-errs; err == nil {
				won++
			} else {
				remotetest.Kind(t, "Create in a race", err, backend.KindConflict, false)
			}
		}
		list, err := r.List(t.Context(), backend.ListFilter{Config: "main", Session: spec.Session})
		if won != 1 || err != nil || len(list) != 1 {
			t.Errorf("round %d: %d won, %d live, %v", round, won, len(list), err)
		}
	}
}
