package manifest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// kinds says which kinds of plugin may carry a key.
type kinds uint8

const (
	backends kinds = 1 << iota
	policies
	languages

	modules = policies | languages
	all     = backends | modules
)

func (k kinds) String() string {
	switch k {
	case backends:
		return "process plugins (kind backend)"
	case policies:
		return "kind policy"
	default: // modules; no key is refused to all
		return "WebAssembly modules (kind policy or language)"
	}
}

// contracts is the table of plugin kinds and of what runs each.
var contracts = map[Kind]struct {
	set     kinds
	runtime Runtime
}{
	KindBackend:  {backends, RuntimeProcess},
	KindPolicy:   {policies, RuntimeWASM},
	KindLanguage: {languages, RuntimeWASM},
}

// key is one row of a table of keys.
type key struct {
	name  string
	kinds kinds
	must  bool
	set   func(d *decoder, n *node)
}

// rootKeys is every key of a manifest. schema and kind come first because they
// decide how the rest is judged.
var rootKeys = []key{
	{"schema", all, true, func(d *decoder, n *node) {
		d.m.Schema = int(d.integer(n, SchemaVersion, SchemaVersion))
	}},
	{"kind", all, true, (*decoder).kind},
	{"runtime", all, true, (*decoder).runtime},
	{"name", all, true, func(d *decoder, n *node) { d.m.Name = d.match(n, nameRule) }},
	{"version", all, true, (*decoder).version},
	{"protocol", all, true, (*decoder).protocol},
	{"path", all, true, (*decoder).path},
	{"sha256", all, false, func(d *decoder, n *node) { d.m.SHA256 = d.match(n, digestRule) }},
	{"description", all, false, func(d *decoder, n *node) { d.m.Description = d.match(n, lineRule) }},
	{"licence", all, false, func(d *decoder, n *node) { d.m.Licence = d.match(n, licenceRule) }},
	{"config", all, false, (*decoder).config},
	{"limits", all, false, func(d *decoder, n *node) { d.table(n, limitKeys) }},
	{"files", all, false, func(d *decoder, n *node) { d.m.Files = d.list(n, 64, (*decoder).relative) }},

	{"env", backends, false, func(d *decoder, n *node) { d.m.Env = d.list(n, 64, (*decoder).envName) }},
	{"capabilities", backends, false, func(d *decoder, n *node) {
		d.m.Capabilities = d.list(n, 64, rule(capabilityRule))
	}},
	{"lacks", backends, false, func(d *decoder, n *node) {
		d.m.Lacks = d.list(n, 8, oneOf("directories", "links_out", "paths"))
	}},
	{"state_schema", backends, false, func(d *decoder, n *node) {
		d.m.StateSchema = d.list(n, 16, rule(stateRule))
	}},
	{"start_timeout", backends, false, func(d *decoder, n *node) {
		d.m.StartTimeout = d.duration(n, 100*time.Millisecond, 5*time.Minute)
	}},

	{"reattach", backends, false, func(d *decoder, n *node) {
		d.m.Reattach = d.duration(n, time.Second, time.Hour)
	}},

	{"abi", modules, false, func(d *decoder, n *node) {
		d.m.ABI = ABI(d.choice(n, string(ABIv1), string(ABIOPA)))
	}},
	{"imports", modules, false, func(d *decoder, n *node) {
		d.m.Imports = d.list(n, 8, oneOf("log", "now_ms", "rand"))
	}},
	{"wasi", modules, false, func(d *decoder, n *node) { d.m.WASI = d.boolean(n) }},
	{"deterministic", modules, false, func(d *decoder, n *node) { d.m.Deterministic = d.boolean(n) }},
	{"needs", policies, false, func(d *decoder, n *node) {
		d.m.Needs = d.list(n, 8, oneOf("code", "args", "files", "output"))
	}},
	{"hooks", policies, false, func(d *decoder, n *node) {
		d.m.Hooks = d.list(n, 2, oneOf(HookAdmit, HookResult))
	}},
}

// limitKeys is every key under limits. A process has no fuel and one instance.
var limitKeys = []key{
	{"memory", all, false, func(d *decoder, n *node) {
		d.m.Limits.Memory = d.bytes(n, 64<<10, 1<<40)
	}},
	{"timeout", all, false, func(d *decoder, n *node) {
		d.m.Limits.Timeout = d.duration(n, time.Millisecond, 5*time.Minute)
	}},
	{"input_bytes", all, false, func(d *decoder, n *node) {
		d.m.Limits.InputBytes = d.bytes(n, 1, 64<<20)
	}},
	{"output_bytes", all, false, func(d *decoder, n *node) {
		d.m.Limits.OutputBytes = d.bytes(n, 1, 64<<20)
	}},
	{"instances", modules, false, func(d *decoder, n *node) {
		d.m.Limits.Instances = int(d.integer(n, 1, 256))
	}},
	{"fuel", modules, false, func(d *decoder, n *node) {
		d.m.Limits.Fuel = d.integer(n, 1, 1e15)
	}},
}

// decoder fills a Manifest from nodes and collects every error on its way.
type decoder struct {
	report
	m      Manifest
	strict bool
	// set is the plugin's kind, or all while that is unknown.
	set kinds
}

// bad reports what is wrong with a value.
func (d *decoder) bad(n *node, format string, args ...any) {
	d.fail(n.pos, n.field, format, args...)
}

func (d *decoder) manifest(root *node) {
	if root.kind != mapNode {
		d.bad(root, "a manifest is a mapping of keys to values, not %s", root.kind)
		return
	}
	// Another version of the format may mean anything by its keys: say only that.
	if n := root.get("schema"); n != nil {
		if d.integer(n, SchemaVersion, SchemaVersion); len(d.errs) > 0 {
			return
		}
	}
	d.set = all
	if n := root.get("kind"); n != nil {
		if c, ok := contracts[Kind(n.text)]; ok && n.kind == stringNode {
			d.set = c.set
		}
	}
	d.table(root, rootKeys)
	d.together(root)
}

// table applies a table of keys to a mapping.
func (d *decoder) table(n *node, keys []key) {
	if n.kind != mapNode {
		d.bad(n, "must be a mapping, not %s", n.kind)
		return
	}
	for _, p := range n.pairs {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == p.key })
		switch {
		case i < 0:
			d.fail(p.pos, p.value.field, "unknown key%s", nearest(p.key, names(keys, d.set)))
		case keys[i].kinds&d.set == 0:
			d.fail(p.pos, p.value.field, "only for %s", keys[i].kinds)
		default:
			keys[i].set(d, p.value)
		}
	}
	for _, k := range keys {
		if k.must && n.get(k.name) == nil {
			d.fail(n.pos, join(n.field, k.name), "required")
		}
	}
}

// names lists the keys that some plugin of these kinds may carry.
func names(keys []key, set kinds) []string {
	var list []string
	for _, k := range keys {
		if k.kinds&set != 0 {
			list = append(list, k.name)
		}
	}
	slices.Sort(list)
	return list
}

// together checks what no key can say alone.
func (d *decoder) together(root *node) {
	if d.strict && root.get("sha256") == nil {
		d.fail(root.pos, "sha256", "required: this host runs only plugins whose manifest pins their artifact")
	}
	if d.set&modules == 0 || d.set == all {
		return
	}
	if d.m.ABI == "" {
		d.m.ABI = ABIv1
	}
	const page = 64 << 10
	if d.m.Limits.Memory%page != 0 {
		d.bad(root.get("limits").get("memory"), "must be a multiple of 64KiB, the page of WebAssembly memory")
	} else if d.m.Limits.Memory > 4<<30 {
		d.bad(root.get("limits").get("memory"), "must be at most 4GiB, all that a WebAssembly module can address")
	}
	if d.m.ABI != ABIOPA {
		return
	}
	if d.set != policies {
		d.bad(root.get("abi"), "opa is only for kind policy")
	}
	if len(d.m.Imports) > 0 || d.m.WASI {
		d.bad(root.get("abi"), "a module made by opa imports neither host functions nor WASI: remove imports and wasi")
	}
}

func (d *decoder) kind(n *node) {
	if n.kind == stringNode && n.text == "entry" {
		d.bad(n, "entries are compiled into the program that embeds the host, and have no manifest")
		return
	}
	known := slices.Sorted(maps.Keys(contracts))
	list := make([]string, len(known))
	for i, k := range known {
		list[i] = string(k)
	}
	d.m.Kind = Kind(d.choice(n, list...))
}

func (d *decoder) runtime(n *node) {
	got := Runtime(d.choice(n, string(RuntimeProcess), string(RuntimeWASM)))
	for kind, c := range contracts {
		if c.set == d.set && got != "" && got != c.runtime {
			d.bad(n, "a plugin of kind %s runs as %s", kind, c.runtime)
		}
	}
	d.m.Runtime = got
}

func (d *decoder) protocol(n *node) {
	const most = 1 << 16
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	}
	if len(items) == 0 || len(items) > 16 {
		d.bad(n, "must name 1 to 16 versions")
		return
	}
	for _, item := range items {
		v := int(d.integer(item, 1, most))
		if slices.Contains(d.m.Protocol, v) {
			d.bad(item, "%d is listed twice", v)
			continue
		}
		d.m.Protocol = append(d.m.Protocol, v)
	}
	slices.Sort(d.m.Protocol)
}

// loaders are the prefixes of variables by which the dynamic loader and the C
// library run code that the digest does not cover.
var loaders = []string{"LD_", "DYLD_", "GLIBC_TUNABLES", "GCONV_PATH"}

// reserved are the prefixes of the host's own variables, among them its secret
// and its service key, and of those that the launch protocol sets itself.
var reserved = []string{"CAISSON_", "CODE_EXEC_", "PLUGIN_"}

func (d *decoder) envName(n *node) string {
	name := d.match(n, envRule)
	upper := strings.ToUpper(name)
	has := func(prefix string) bool { return strings.HasPrefix(upper, prefix) }
	switch {
	case slices.ContainsFunc(loaders, has):
		d.bad(n, "%s can make the loader run code that sha256 does not cover: it is never passed on", name)
	case slices.ContainsFunc(reserved, has):
		d.bad(n, "%s belongs to the host: it is never passed on", name)
	}
	return name
}
