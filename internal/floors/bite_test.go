package floors

import (
	"go/token"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRulesBite shows each rule a file that breaks it and one that keeps it.
func TestRulesBite(t *testing.T) {
	const own = `"github.com/caisson-run/caisson/`
	for name, test := range map[string]struct {
		file, text string
		want       string // part of the one violation, or empty for none
	}{
		"contract imports host":      {"sdk/policy/a.go", `package policy; import _ ` + own + `host"`, "sdk/policy may not import host"},
		"contract imports runtime":   {"manifest/a.go", `package manifest; import _ ` + own + `runtimes/wasm"`, "manifest may not import runtimes/wasm"},
		"runtime imports host":       {"runtimes/wasm/a.go", `package wasm; import _ ` + own + `host/session"`, "runtimes/wasm may not import host"},
		"host imports entry":         {"host/a.go", `package host; import _ ` + own + `plugins/exec"`, "host may not import plugins/exec"},
		"host imports its command":   {"host/a.go", `package host; import _ ` + own + `host/cmd/caisson"`, "host may not import host/cmd"},
		"entry imports runtime":      {"plugins/exec/a.go", `package exec; import _ ` + own + `runtimes/process"`, "plugins/exec may not import runtimes"},
		"command links a backend":    {"host/cmd/caisson/a.go", `package main; import _ ` + own + `plugins/wasm/internal/interp"`, "host/cmd may not import plugins/wasm"},
		"backend imports host":       {"plugins/docker/a.go", `package main; import _ ` + own + `host"`, "plugins may not import host"},
		"backend imports runtime":    {"plugins/docker/a.go", `package main; import _ ` + own + `runtimes/wasm"`, "plugins may not import runtimes/wasm"},
		"guest imports contract":     {"plugins/languages/a.go", `package main; import _ ` + own + `sdk/backend"`, "plugins/languages may not import sdk/backend"},
		"new directory":              {"misc/a.go", `package misc; import _ ` + own + `sdk"`, "no floor covers misc"},
		"constrained file":           {"sdk/guest/a_wasip1.go", "//go:build wasip1\n\npackage guest\nimport _ " + own + `host"`, "sdk/guest may not import host"},
		"library out of place":       {"host/a.go", `package host; import _ "github.com/tetratelabs/wazero/api"`, "may be imported only in"},
		"backend named":              {"host/a.go", `package host; const x = "Docker"`, "names a backend"},
		"library in a signature":     {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; func F(plugin.Plugin) {}`, "is in the exported API"},
		"library in a field":         {"sdk/backend/a.go", `package backend; import p "github.com/hashicorp/go-plugin"; type T struct{ C *p.Client }`, "p.Client of"},
		"library in a method":        {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; func (*T[X]) F() plugin.Plugin { return nil }`, "is in the exported API"},
		"library in an interface":    {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; type I interface{ F(p plugin.Plugin) }`, "is in the exported API"},
		"library embedded":           {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; type T struct{ plugin.Plugin }`, "is in the exported API"},
		"command stands on all":      {"host/cmd/caisson/a.go", `package main; import (_ ` + own + `plugins/exec"; _ ` + own + `host/ledger")`, ""},
		"wasm may meter itself":      {"plugins/wasm/a.go", `package main; import (_ ` + own + `runtimes/wasm"; _ ` + own + `sdk/backend")`, ""},
		"private field":              {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; type T struct{ c *plugin.Client }`, ""},
		"private function":           {"sdk/backend/a.go", `package backend; import "github.com/hashicorp/go-plugin"; func f(*plugin.Client) {}`, ""},
		"command configures default": {"host/cmd/caisson/a.go", `package main; const x = "wasm"`, ""},
		"a test may reach up":        {"sdk/policy/a_test.go", `package policy; import _ ` + own + `host"`, ""},
		"testdata is not ours":       {"sdk/testdata/a.go", `package x; import _ ` + own + `host"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := token.NewFileSet()
			sources, err := parse(fstest.MapFS{test.file: {Data: []byte(test.text)}}, set)
			if err != nil {
				t.Fatal(err)
			}
			got := violations(set, sources)
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("unexpected: %q", got)
			case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
				t.Errorf("got %q, want one with %q", got, test.want)
			}
		})
	}
}
