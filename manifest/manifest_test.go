package manifest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/manifest"
)

const backend = `schema: 1
name: docker
version: 1.0.0
kind: backend
runtime: process
protocol: [1, 2]
path: docker
`

const policy = `schema: 1
name: limits
version: 1.0.0
kind: policy
runtime: wasm
protocol: 1
path: limits.wasm
`

func parse(t testing.TB, src string) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Parse("plugin.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNegotiate(t *testing.T) {
	for _, tt := range []struct {
		protocol string
		host     []int
		want     int
		err      string
	}{
		{"1", []int{1}, 1, ""},
		{"[1, 2]", []int{1, 2, 3}, 2, ""},
		{"[3, 1]", []int{2, 1}, 1, ""},
		{"1", []int{3, 2}, 0, `plugin "docker" speaks protocol 1, this host speaks 2, 3: upgrade the plugin`},
		{"[4, 5]", []int{2, 3}, 0, `plugin "docker" speaks protocol 4, 5, this host speaks 2, 3: upgrade the host`},
		{"2", []int{1, 3}, 0, `plugin "docker" speaks protocol 2, this host speaks 1, 3: install a version of the plugin that speaks one of the host's`},
		{"2", nil, 0, `plugin "docker" speaks protocol 2, this host speaks none: nothing to agree on`},
	} {
		m := parse(t, strings.Replace(backend, "[1, 2]", tt.protocol, 1))
		got, err := m.Negotiate(tt.host)
		if got != tt.want {
			t.Errorf("%s with %v: got %d, want %d", tt.protocol, tt.host, got, tt.want)
		}
		var typed *manifest.ProtocolError
		switch {
		case tt.err == "" && err != nil:
			t.Errorf("%s with %v: %v", tt.protocol, tt.host, err)
		case tt.err != "" && (!errors.As(err, &typed) || err.Error() != tt.err):
			t.Errorf("%s with %v:\n got %v\nwant %s", tt.protocol, tt.host, err, tt.err)
		}
	}
}

func TestAllows(t *testing.T) {
	m := parse(t, backend+"capabilities: [pause]\n")
	for name, want := range map[string]bool{"pause": true, "Pause": false, "volumes": false, "": false} {
		if got := m.AllowsCapability(name); got != want {
			t.Errorf("AllowsCapability(%q) = %v", name, got)
		}
	}
	type imports map[string]bool
	for name, tt := range map[string]struct {
		src  string
		want imports
	}{
		"nothing": {policy, imports{
			"host_v1.log": false, "wasi_snapshot_preview1.fd_write": false, "env.opa_abort": false, "env.memory": false,
		}},
		"log": {policy + "imports: [log]\n", imports{
			"host_v1.log": true, "host_v1.rand": false, "env.log": false, "host_v2.log": false, ".log": false,
		}},
		"wasi": {policy + "wasi: true\n", imports{
			"wasi_snapshot_preview1.fd_write": true, "wasi_unstable.fd_write": false, "host_v1.log": false,
		}},
		"opa": {policy + "abi: opa\n", imports{
			"env.memory": true, "env.opa_abort": true, "env.opa_builtin4": true, "env.opa_builtin5": false,
			"host_v1.log": false, "wasi_snapshot_preview1.fd_write": false,
		}},
		"process": {backend, imports{"host_v1.log": false, "env.memory": false}},
	} {
		m := parse(t, tt.src)
		for symbol, want := range tt.want {
			module, fn, _ := strings.Cut(symbol, ".")
			if got := m.AllowsImport(module, fn); got != want {
				t.Errorf("%s: AllowsImport(%q, %q) = %v", name, module, fn, got)
			}
		}
	}
}

func TestTighten(t *testing.T) {
	declared := manifest.Limits{Memory: 64, Timeout: time.Second, Fuel: 10, InputBytes: 5}
	caps := manifest.Limits{Memory: 32, Timeout: time.Minute, Instances: 4, Fuel: 10, OutputBytes: 7}
	want := manifest.Limits{Memory: 32, Timeout: time.Second, Instances: 4, Fuel: 10, InputBytes: 5, OutputBytes: 7}
	if got := declared.Tighten(caps); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := caps.Tighten(declared); got != want {
		t.Errorf("the other way round: got %+v, want %+v", got, want)
	}
}

func TestRequireDigest(t *testing.T) {
	_, err := manifest.Parse("plugin.yaml", []byte(backend), manifest.RequireDigest)
	var e *manifest.Error
	if !errors.As(err, &e) || e.Field != "sha256" || !strings.HasPrefix(e.Reason, "required") {
		t.Errorf("unpinned: got %v", err)
	}
	pinned := backend + "sha256: \"" + strings.Repeat("ab", 32) + "\"\n"
	if _, err := manifest.Parse("plugin.yaml", []byte(pinned), manifest.RequireDigest); err != nil {
		t.Errorf("pinned: %v", err)
	}
}

// TestBounded feeds documents made to exhaust whoever reads them. Each must be
// refused for the reason meant for it, within 96 MiB of allocation.
func TestBounded(t *testing.T) {
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d:\n", i)
		}
		return b.String()
	}
	laughs := "a0: &a0 [x, x]\n"
	for i := range 20 {
		laughs += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	defs := backend + "config:\n  $ref: \"#/$defs/d0\"\n  $defs:\n"
	for i := range 40 {
		defs += fmt.Sprintf("    d%d: { allOf: [{ $ref: \"#/$defs/d%d\" }, { $ref: \"#/$defs/d%d\" }] }\n", i, i+1, i+1)
	}
	defs += "    d40: {}\n"
	for _, tt := range []struct{ name, src, want string }{
		{"too large", backend + strings.Repeat("# filler\n", manifest.MaxSize/9), "larger than 256 KiB"},
		{"aliases", laughs, "anchors and aliases are not allowed"},
		{"lists in lists", strings.Repeat("[", 200_000), "tokens"},
		{"lists in lists, few tokens", strings.Repeat("[", 8000), "levels deep"},
		{"maps in maps", strings.Repeat("{a: ", 2500), "levels deep"},
		{"dashes", strings.Repeat("- ", 8000), "levels deep"},
		{"indentation", func() string {
			var b strings.Builder
			for i := range 700 {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}(), "levels deep"},
		{"many keys", keys(30_000), "tokens"},
		{"as many keys as tokens allow", keys(4000), "unknown key"},
		{"many items", "env:\n" + strings.Repeat("- A\n", 60_000), "tokens"},
		{"schema that doubles forty times", defs, "more than 4096 schemas"},
		{"digits", "schema: " + strings.Repeat("1", 200_000), "must be 1"},
		{"long string", backend + "description: " + strings.Repeat("x", 200_000), "must be one line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := manifest.Parse("plugin.yaml", []byte(tt.src))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.200v, want an error with %q", err, tt.want)
			}
			if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent > 96 {
				t.Errorf("allocated %d MiB", spent)
			}
		})
	}
}

func ExampleParse() {
	_, err := manifest.Parse("plugin.yaml", []byte(`schema: 1
name: docker
version: 1.0.0
kind: backend
runtime: process
protocol: 1
path: ../docker
license: MIT
`))
	fmt.Println(err)
	// Output:
	// plugin.yaml:7:7: path: must stay inside the plugin directory: no ..
	// plugin.yaml:8:1: license: unknown key (did you mean licence?)
}

func ExampleManifest_ValidateConfig() {
	m, err := manifest.Parse("plugin.yaml", []byte(`schema: 1
name: docker
version: 1.0.0
kind: backend
runtime: process
protocol: 1
path: docker
config:
  required: [image]
  properties:
    image: { type: string }
    memory: { type: integer, minimum: 67108864 }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.ValidateConfig([]byte(`{"image": "python:3.13", "memory": 1024}`)))
	fmt.Println(m.ValidateConfig([]byte(`{"imgae": "python:3.13"}`)))
	// Output:
	// plugin "docker": config /memory: must be at least 67108864
	// plugin "docker": config /image: required
	// plugin "docker": config /imgae: unknown key (did you mean image?)
}
