package floors

import (
	"fmt"
	"slices"
	"strings"
)

// module is this module's path.
const module = "github.com/caisson-run/caisson"

// floor is one row of the layout.
type floor struct {
	// path is a directory; the row covers what lies below it too, except where
	// a longer row does.
	path string
	// may lists the rows that this one may import besides itself.
	may []string
}

// layout is docs/architecture.md as a table. A package outside every row is a
// violation too: a new directory needs a decision.
var layout = []floor{
	{path: "manifest", may: []string{"internal/yamldepth"}},
	{path: "sdk"},
	{path: "sdk/guest", may: []string{"sdk"}},
	{path: "sdk/policy", may: []string{"sdk", "sdk/guest"}},
	{path: "sdk/language", may: []string{"sdk", "sdk/guest"}},
	{path: "sdk/netguard"},
	{path: "internal/pluginwire"},
	{path: "internal/machine"},
	{path: "internal/yamldepth"},
	{path: "internal/procstat"},
	{path: "sdk/backend", may: []string{"sdk", "internal/pluginwire"}},

	{path: "runtimes", may: contracts},
	{path: "runtimes/wasm", may: append([]string{"runtimes"}, contracts...)},
	{path: "runtimes/process", may: append([]string{"runtimes", "internal/pluginwire", "internal/procstat"}, contracts...)},
	{path: "host", may: append([]string{"internal/yamldepth", "internal/procstat", "runtimes", "runtimes/wasm", "runtimes/process"}, contracts...)},
	{path: "plugins/exec", may: append([]string{"host", "internal/machine"}, contracts...)},
	{path: "host/cmd", may: append([]string{"runtimes", "runtimes/wasm", "runtimes/process", "host", "plugins/exec"}, contracts...)},

	// Backends run in processes of their own and know nothing of the host.
	{path: "plugins", may: []string{"sdk/backend", "sdk/netguard", "plugins/internal"}},
	{path: "plugins/wasm", may: []string{"sdk/backend", "runtimes/wasm", "internal/machine"}},
	// What backends of one kind share.
	{path: "plugins/internal", may: []string{"sdk/backend", "sdk/netguard"}},
	// What their tests share, which may reach up as tests may.
	{path: "plugins/internal/plugintest", may: []string{"sdk/backend", "manifest", "runtimes/process", "host", "plugins/internal"}},
	// Guest modules stay small.
	{path: "plugins/languages", may: []string{"sdk", "sdk/guest", "sdk/language"}},
	{path: "plugins/policies", may: []string{"sdk", "sdk/guest", "sdk/policy"}},

	// The reference backend of tests.
	{path: "internal/hostbackend", may: []string{"sdk/backend"}},

	{path: "docs/examples", may: []string{"sdk/policy", "sdk/language", "sdk/backend"}},

	// Servers of tests.
	{path: "internal/enginetest"},
	{path: "internal/porttest"},
	{path: "internal/redistest"},

	{path: "internal/floors"},
	{path: "internal/docs"},
}

// contracts are the floors at the bottom.
var contracts = []string{
	"manifest", "sdk", "sdk/backend", "sdk/netguard", "sdk/guest", "sdk/policy", "sdk/language",
}

// libraries says where a third-party library may be imported: nowhere else, so
// that it can be replaced and its types stay out of everybody's API.
var libraries = map[string][]string{
	"github.com/hashicorp/go-plugin":        {"sdk/backend", "runtimes/process", "internal/pluginwire"},
	"google.golang.org/grpc":                {"sdk/backend", "runtimes/process", "internal/pluginwire"},
	"github.com/tetratelabs/wazero":         {"runtimes/wasm", "plugins/wasm"},
	"github.com/evanw/esbuild":              {"plugins/wasm"},
	"github.com/docker/docker":              {"plugins/docker"},
	"mvdan.cc/sh":                           {"plugins/wasm"},
	"github.com/benhoyt/goawk":              {"plugins/wasm"},
	"github.com/itchyny/gojq":               {"plugins/wasm"},
	"github.com/landlock-lsm/go-landlock":   {"plugins/wasm"},
	"github.com/elastic/go-seccomp-bpf":     {"plugins/wasm"},
	"connectrpc.com/connect":                {"plugins/internal/envd", "plugins/internal/envdfake"},
	"github.com/coder/websocket":            {"plugins/internal/envd", "plugins/internal/envdfake"},
	"modernc.org/sqlite":                    {"host/ledger", "host/session/binding/sqlite"},
	"github.com/redis/go-redis":             {"host/session/binding/redis", "internal/redistest"},
	"github.com/urfave/cli":                 {"host/cmd"},
	"github.com/prometheus":                 {"host/telemetry"},
	"go.opentelemetry.io/otel":              {"host/telemetry", "host/cmd/caisson/internal/tracing", "sdk/backend"},
	"github.com/getkin/kin-openapi":         {},
	"github.com/oapi-codegen/runtime":       {"sdk/client/wire"},
	"github.com/modelcontextprotocol":       {"plugins/exec/mcp"},
	"github.com/santhosh-tekuri/jsonschema": {"manifest", "sdk/internal"},
}

// public are the directories whose exported API must not contain types of the
// private libraries: whoever embeds the host or writes a plugin does not need them.
var (
	public  = []string{"host", "sdk", "manifest"}
	private = []string{
		"github.com/hashicorp/go-plugin", "github.com/tetratelabs/wazero", "modernc.org/sqlite",
		"github.com/docker", "github.com/moby", "connectrpc.com",
		"github.com/redis/go-redis",
	}
)

// Above sdk/backend no backend is known by its name. What configures a server is
// exempt: they know the default, and so does an embedding program.
var (
	nameless = []string{"host", "plugins/exec"}
	exempt   = []string{"host/cmd", "host/config", "plugins/exec/examples"}
	names    = []string{"wasm", "docker", "e2b", "cube"}
)

// covers reports whether path is dir or below it; both are slash-separated.
func covers(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func within(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return covers(dir, path) })
}

// floorOf finds the row of a directory: the longest that covers it.
func floorOf(dir string) (floor, bool) {
	var best floor
	for _, f := range layout {
		if covers(f.path, dir) && len(f.path) > len(best.path) {
			best = f
		}
	}
	return best, best.path != ""
}

// checkImport says what is wrong with a package in dir importing path, or
// returns "".
func checkImport(dir, path string) string {
	if covers(module, path) {
		return checkOwn(dir, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
	}
	for library, homes := range libraries {
		if covers(library, path) && !within(homes, dir) {
			return fmt.Sprintf("%s may be imported only in %s", library, strings.Join(homes, ", "))
		}
	}
	return ""
}

func checkOwn(dir, target string) string {
	from, ok := floorOf(dir)
	if !ok {
		return fmt.Sprintf("no floor covers %s: give it a row", dir)
	}
	to, ok := floorOf(target)
	if !ok {
		return fmt.Sprintf("no floor covers %s: give it a row", target)
	}
	if to.path != from.path && !slices.Contains(from.may, to.path) {
		return fmt.Sprintf("%s may not import %s", from.path, to.path)
	}
	return ""
}
