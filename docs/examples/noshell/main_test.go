package main

import (
	"context"
	"os"
	"testing"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/guest/guesttest"
	"github.com/caisson-run/caisson/sdk/policy"
)

// TestLoads builds the module as the document says and asks it as a host does.
func TestLoads(t *testing.T) {
	ctx := context.Background()
	text, err := os.ReadFile("plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse("plugin.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	module, err := guesttest.Build(ctx, ".")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := wasm.Load(ctx, wasm.Spec{
		Name: m.Name, Module: module, WASI: m.WASI, Imports: m.Imports, Deterministic: m.Deterministic,
		Limits: wasm.Limits{MemoryBytes: m.Limits.Memory, Timeout: m.Limits.Timeout, Instances: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := loaded.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for language, want := range map[string]policy.Decision{"bash": policy.Deny, "py": policy.Allow} {
		request := policy.Request{Org: "acme", Via: "bearer", Language: language, Config: "main", Network: "none"}
		reply, err := loaded.Call(ctx, wasm.OpAdmit, request.AppendJSON(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := policy.DecodeVerdict(reply)
		if err != nil {
			t.Fatal(err)
		}
		if verdict.Decision != want {
			t.Errorf("%s: %+v, want %s", language, verdict, want)
		}
	}
}
