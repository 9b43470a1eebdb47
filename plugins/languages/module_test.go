package main

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/guest/guesttest"
	"github.com/caisson-run/caisson/sdk/language"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestModule loads the module as a host does, with what its manifest says, and
// compares what it answers with what this package says natively.
func TestModule(t *testing.T) {
	data, err := os.ReadFile(manifest.FileName)
	if err != nil {
		t.Fatal(err)
	}
	mf, err := manifest.Parse(manifest.FileName, data)
	if err != nil {
		t.Fatal(err)
	}
	module, err := guesttest.Build(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := wasm.Load(context.Background(), wasm.Spec{
		Name: mf.Name, Module: module, ABI: string(mf.ABI), Imports: mf.Imports, WASI: mf.WASI, Deterministic: mf.Deterministic,
		Limits: wasm.Limits{
			MemoryBytes: mf.Limits.Memory, Instances: 2,
			Timeout:    time.Minute, // what is tested here is not how busy the machine is
			InputBytes: mf.Limits.InputBytes, OutputBytes: mf.Limits.OutputBytes,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()

	out, err := m.Call(context.Background(), wasm.OpList, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := language.DecodeTable(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := table(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// Many arguments, with every kind of byte that needs escaping.
	args := []string{"", "a b", "\x01\n\"\\", "é😀\u2028", "{dir}", "--", "-c"}
	for range 300 {
		args = append(args, strings.Repeat("\x02", 20))
	}
	for _, l := range got.Languages {
		for _, toolchain := range l.Toolchains {
			r := language.PlanRequest{Language: l.ID, Toolchain: toolchain, Args: args}
			if l.ID == "sql" {
				r.Args = nil
			}
			out, err := m.Call(context.Background(), wasm.OpPlan, r.AppendJSON(nil), nil)
			if err != nil {
				t.Errorf("%s by %s: %v", l.ID, toolchain, err)
				continue
			}
			p, err := language.DecodePlan(out)
			if err == nil {
				err = p.CheckArgs(r.Args)
			}
			native, _ := plan(r)
			if err != nil || !reflect.DeepEqual(p, native) {
				t.Errorf("%s by %s: %v", l.ID, toolchain, err)
			}
		}
	}
	for _, tc := range []struct {
		request language.PlanRequest
		code    string
	}{
		{language.PlanRequest{Language: "cobol", Toolchain: "gcc"}, language.CodeUnknownLanguage},
		{language.PlanRequest{Language: "py", Toolchain: "gcc"}, language.CodeUnknownToolchain},
		{language.PlanRequest{Language: "sql", Toolchain: "sqlite", Args: []string{".shell id"}}, codeNoArguments},
	} {
		_, err := m.Call(context.Background(), wasm.OpPlan, tc.request.AppendJSON(nil), nil)
		var refusal *wasm.GuestError
		if !errors.As(err, &refusal) || refusal.Code != tc.code {
			t.Errorf("%+v: got %v, want %s", tc.request, err, tc.code)
		}
	}
	if s := m.Stats(); s.Discards != 0 {
		t.Errorf("stats %+v", s)
	}
}
