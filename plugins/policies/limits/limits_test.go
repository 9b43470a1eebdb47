package main

import (
	"os"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/policy"
)

func readManifest(tb testing.TB) *manifest.Manifest {
	tb.Helper()
	data, err := os.ReadFile(manifest.FileName)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := manifest.Parse(manifest.FileName, data)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// TestConfig checks that the module and its manifest's schema agree on what a
// configuration is.
func TestConfig(t *testing.T) {
	m := readManifest(t)
	for name, tc := range map[string]struct {
		config string
		want   string // of the module's own error; empty accepts
	}{
		"empty": {`{}`, ""},
		"full": {`{"languages":["py","c-x"],"orgs":["a"],"deny_orgs":["b"],"network":"none","max_code_bytes":0,"max_args":0,"max_files":3,"max_file_bytes":4,
			"limits":{"wall_ms":1,"cpu_ms":2,"memory_bytes":3,"processes":4,"stdout_bytes":5,"stderr_bytes":6,"changed_files":7,"changed_file_bytes":8}}`, ""},
		"open network":    {`{"network":"open"}`, ""},
		"unknown member":  {`{"language":["py"]}`, "language: unknown member"},
		"empty list":      {`{"languages":[]}`, "languages: want at least one element"},
		"alias":           {`{"languages":["C++"]}`, "languages: want canonical language ids"},
		"empty org":       {`{"orgs":["a",""]}`, "orgs: want at least one element, and none empty"},
		"empty deny list": {`{"deny_orgs":[]}`, "deny_orgs: want at least one element"},
		"string for list": {`{"languages":"py"}`, "languages: want an array"},
		"other network":   {`{"network":"some"}`, `network: want "none" or "open"`},
		"negative":        {`{"max_files":-1}`, "max_files: want a number of at least 0"},
		"fraction":        {`{"max_args":1.5}`, "max_args: want a 64-bit integer"},
		"null":            {`{"max_code_bytes":null}`, "max_code_bytes: want a number"},
		"zero limit":      {`{"limits":{"wall_ms":0}}`, "limits.wall_ms: want a number of at least 1"},
		"unknown limit":   {`{"limits":{"wall":1}}`, "limits.wall: unknown member"},
		"array":           {`[]`, "want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseConfig([]byte(tc.config))
			bySchema := m.ValidateConfig([]byte(tc.config))
			switch {
			case tc.want == "" && (err != nil || bySchema != nil):
				t.Errorf("module: %v, schema: %v", err, bySchema)
			case tc.want != "" && bySchema == nil:
				t.Error("the schema accepts it")
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("module: %v, want %s", err, tc.want)
			}
		})
	}
}

func request() policy.Request {
	return policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "wasm", Network: "none", CodeBytes: 100}
}

func TestDecide(t *testing.T) {
	file := func(name string, size int64) policy.File { return policy.File{Name: name, Size: size} }
	for name, tc := range map[string]struct {
		config string
		change func(*policy.Request)
		code   string
		reason string
	}{
		"no configuration":   {`{}`, func(r *policy.Request) { r.Network = "open"; r.CodeBytes = 1 << 40 }, "", ""},
		"language allowed":   {`{"languages":["js","py"]}`, nil, "", ""},
		"language":           {`{"languages":["js","c"]}`, nil, "language_not_allowed", `language "py" is not allowed here; allowed is js and c`},
		"only language":      {`{"languages":["js"]}`, nil, "language_not_allowed", `language "py" is not allowed here; allowed is js`},
		"many languages":     {`{"languages":["a","b","c","d","e","f","g","h","i","j","k","l","m"]}`, nil, "language_not_allowed", `language "py" is not allowed here; allowed is a, b, c, d, e, f, g, h, i, j, k, l and more`},
		"org allowed":        {`{"orgs":["acme"]}`, nil, "", ""},
		"org":                {`{"orgs":["other"]}`, nil, "org_not_allowed", "this organisation may not run programs here"},
		"org denied":         {`{"orgs":["acme"],"deny_orgs":["acme"]}`, nil, "org_not_allowed", "this organisation may not run programs here"},
		"org by other case":  {`{"orgs":["Acme"]}`, nil, "org_not_allowed", "this organisation may not run programs here"},
		"network":            {`{"network":"none"}`, func(r *policy.Request) { r.Network = "open" }, "network_not_allowed", "programs may not use the network here"},
		"network not stated": {`{"network":"none"}`, func(r *policy.Request) { r.Network = "" }, "network_not_allowed", "programs may not use the network here"},
		"no network":         {`{"network":"none"}`, nil, "", ""},
		"network open":       {`{"network":"open"}`, func(r *policy.Request) { r.Network = "open" }, "", ""},
		"code at the cap":    {`{"max_code_bytes":100}`, nil, "", ""},
		"code":               {`{"max_code_bytes":99}`, nil, "code_too_large", "the program has 100 bytes, and at most 99 are allowed here"},
		"args":               {`{"max_args":0}`, func(r *policy.Request) { r.Args = []string{"x"} }, "too_many_args", "the program has 1 argument, and at most 0 are allowed here"},
		"files at the cap":   {`{"max_files":1}`, func(r *policy.Request) { r.Files = []policy.File{file("a", -1)} }, "", ""},
		"files":              {`{"max_files":1}`, func(r *policy.Request) { r.Files = make([]policy.File, 2) }, "too_many_files", "the run has 2 input files, and at most 1 are allowed here"},
		"file size":          {`{"max_file_bytes":9}`, func(r *policy.Request) { r.Files = []policy.File{file("a", 9), file("b\n\"", 10)} }, "file_too_large", `input file "b\n\"" has 10 bytes, and at most 9 are allowed here`},
		"file size unknown":  {`{"max_file_bytes":9}`, func(r *policy.Request) { r.Files = []policy.File{file("a", -1)} }, "file_size_unknown", `the size of input file "a" is not known, and sizes are limited here`},
		"org before others":  {`{"orgs":["other"],"languages":["js"],"max_code_bytes":1}`, nil, "org_not_allowed", "this organisation may not run programs here"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseConfig([]byte(tc.config))
			if err != nil {
				t.Fatal(err)
			}
			r := request()
			if tc.change != nil {
				tc.change(&r)
			}
			v := c.decide(r)
			if err := v.Validate(); err != nil {
				t.Fatal(err)
			}
			if (v.Decision == policy.Deny) != (tc.code != "") || v.Code != tc.code || v.Reason != tc.reason {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// Whatever a caller sends, the verdict can be delivered.
func TestReasonsAreSentences(t *testing.T) {
	c, err := parseConfig([]byte(`{"max_file_bytes":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "\x00\n\u0085\u2028", strings.Repeat("é", 500), "\xff\xfe", strings.Repeat("\x01", 300)} {
		v := c.decide(policy.Request{Files: []policy.File{{Name: name, Size: 2}}})
		if err := v.Validate(); err != nil || v.Decision != policy.Deny {
			t.Errorf("%q: %+v, %v", name, v, err)
		}
	}
}

func TestCaps(t *testing.T) {
	c, err := parseConfig([]byte(`{"limits":{"wall_ms":1,"cpu_ms":2,"memory_bytes":3,"processes":4,"stdout_bytes":5,"stderr_bytes":6,"changed_files":7,"changed_file_bytes":8}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Limits{WallMS: 1, CPUMS: 2, MemoryBytes: 3, Processes: 4, StdoutBytes: 5, StderrBytes: 6, ChangedFiles: 7, ChangedFileBytes: 8}
	if v := c.decide(request()); v.Decision != policy.Allow || v.Limits != want {
		t.Errorf("got %+v", v)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"languages":["py"],"network":"none","limits":{"wall_ms":5}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err != nil {
			return
		}
		v := c.decide(request())
		if err := v.Validate(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
