package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/manifest"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// checker collects every rule that a decoded file breaks.
type checker struct {
	name string
	tree *ast.File
	errs []*Error
}

// fail reports a rule broken at a key, given as a path like backends[0].id. The
// place is that of the nearest part of the path that the file has.
func (c *checker) fail(field, format string, args ...any) {
	e := &Error{File: c.name, Line: 1, Column: 1, Field: field, Reason: fmt.Sprintf(format, args...)}
	for part := field; part != ""; part = parent(part) {
		path, err := yaml.PathString("$." + part)
		if err != nil {
			continue
		}
		if n, err := path.FilterFile(c.tree); err == nil && n != nil {
			at := n.GetToken().Position
			e.Line, e.Column = at.Line, at.Column
			break
		}
	}
	c.errs = append(c.errs, e)
}

var lastPart = regexp.MustCompile(`(\.[^.\[]+|\[[0-9]+\]|^[^.\[]+)$`)

func parent(field string) string { return lastPart.ReplaceAllString(field, "") }

var (
	idExpr     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	pluginExpr = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	nameExpr   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	orgExpr    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@/-]{0,127}$`)
	envExpr    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// maxListed bounds the backends, policies and language tables of a configuration.
const maxListed = 64

// maxOutput bounds what a configuration may have a tool hand back.
const maxOutput = 16 << 20

func (c *checker) match(field, value string, expr *regexp.Regexp) {
	if !expr.MatchString(value) {
		c.fail(field, "must match %s", expr)
	}
}

// tooMany refuses lists that are too long: each element is loaded.
func (c *checker) tooMany(f File) (found bool) {
	for field, n := range map[string]int{"policies": len(f.Policies), "languages": len(f.Languages), "backends": len(f.Backends)} {
		if n > maxListed {
			c.fail(field, "has %d elements, and at most %d are allowed", n, maxListed)
			found = true
		}
	}
	return found
}

func (c *checker) file(f File) {
	if _, port, err := net.SplitHostPort(f.Listen); err != nil || !validPort(port) {
		c.fail("listen", `must be HOST:PORT, such as "127.0.0.1:8080"`)
	}
	c.match("deployment", f.Deployment, nameExpr)
	if f.Node != "" {
		c.match("node", f.Node, nameExpr)
	}
	c.match("brand_org", f.BrandOrg, orgExpr)
	for i, d := range f.Plugins.Dirs {
		if d == "" {
			c.fail(fmt.Sprintf("plugins.dirs[%d]", i), "must name a directory")
		}
	}
	if c.tooMany(f) {
		return // no line for each of thousands
	}
	c.backends(f)
	for i, p := range f.Policies {
		c.match(fmt.Sprintf("policies[%d].plugin", i), p.Plugin, pluginExpr)
		c.choice(fmt.Sprintf("policies[%d].mode", i), p.Mode, "deny", "warn", "observe")
		c.choice(fmt.Sprintf("policies[%d].fail", i), p.Fail, FailClosed, FailOpen)
	}
	for i, l := range f.Languages {
		c.match(fmt.Sprintf("languages[%d]", i), l, pluginExpr)
		if slices.Index(f.Languages, l) < i {
			c.fail(fmt.Sprintf("languages[%d]", i), "%q is listed twice", l)
		}
	}
	if _, err := manifest.ParseKeys(f.Plugins.Keys); err != nil {
		c.fail("plugins.keys", "%v", err)
	}
	c.limits(f.Limits, f.MaxLimits)
	c.sessions(f)
	c.admission(f.Admission)
	c.admin(f)
	for i, h := range f.MCP.Hosts {
		if h == "" || strings.ContainsAny(h, "/:@ ") && net.ParseIP(h) == nil {
			c.fail(fmt.Sprintf("mcp.hosts[%d]", i), "must be a name or address without scheme and port")
		}
	}
	if f.MCP.OutputBytes > maxOutput {
		c.fail("mcp.output_bytes", "must be at most %d MiB", maxOutput>>20)
	}
	if l := f.Billing.Ledger; l != LedgerSQLite && l != LedgerNone {
		c.fail("billing.ledger", "must be %s or %s", LedgerSQLite, LedgerNone)
	}
	if f.Billing.Ledger == LedgerNone && f.Billing.Path != "" {
		c.fail("billing.path", "has no meaning with ledger: none")
	}
}

func (c *checker) sessions(f File) {
	s := f.Sessions
	switch s.Store {
	case StoreMemory, StoreSQLite, StoreRedis:
	default:
		c.fail("sessions.store", "must be %s, %s or %s", StoreMemory, StoreSQLite, StoreRedis)
	}
	switch {
	case s.Store == StoreRedis:
		c.secret("sessions.redis", s.Redis)
	case s.Redis != Secret{}:
		c.fail("sessions.redis", "has no meaning without store: %s", StoreRedis)
	}
	seen := map[string]bool{f.Node: true}
	for i, p := range f.Peers {
		at := fmt.Sprintf("peers[%d]", i)
		c.match(at+".node", p.Node, nameExpr)
		if seen[p.Node] {
			c.fail(at+".node", "%q is this node or listed twice", p.Node)
		}
		seen[p.Node] = true
		if u, err := url.Parse(p.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			c.fail(at+".url", "must be an http or https URL without user, query or fragment")
		}
	}
	if len(f.Peers) > 0 && f.Node == "" {
		c.fail("peers", "need this node to have a name: set node")
	}
}

func (c *checker) backends(f File) {
	seen := make(map[string]Backend)
	for i, b := range f.Backends {
		at := fmt.Sprintf("backends[%d]", i)
		c.match(at+".id", b.ID, idExpr)
		if _, dup := seen[b.ID]; dup && b.ID != "" {
			c.fail(at+".id", "%q is used twice", b.ID)
		}
		seen[b.ID] = b
		c.match(at+".plugin", b.Plugin, pluginExpr)
		if b.Tenant != "" {
			c.match(at+".tenant", b.Tenant, orgExpr)
		}
		for name, s := range b.Secrets {
			c.secret(fmt.Sprintf("%s.secrets.%s", at, name), s)
			if b.Config.has(name) {
				c.fail(fmt.Sprintf("%s.secrets.%s", at, name), "is in config too: keep one of them")
			}
		}
	}
	switch d, ok := seen[f.DefaultBackend]; {
	case f.DefaultBackend == "":
		c.fail("default_backend", "is required when there are several backends")
	case !ok:
		c.fail("default_backend", "%q is the id of no backend", f.DefaultBackend)
	case d.Tenant != "":
		c.fail("default_backend", "%q belongs to one tenant, so it cannot be everybody's", f.DefaultBackend)
	}
}

func (c *checker) limits(l, most Limits) {
	exceeds := func(key string, value, bound float64) {
		if value > 0 && bound > 0 && value > bound {
			c.fail("limits."+key, "is more than max_limits.%s", key)
		}
	}
	exceeds("wall", float64(l.Wall), float64(most.Wall))
	exceeds("cpu", float64(l.CPU), float64(most.CPU))
	exceeds("memory", float64(l.Memory), float64(most.Memory))
	exceeds("cpus", float64(l.CPUs), float64(most.CPUs))
	exceeds("processes", float64(l.Processes), float64(most.Processes))
	exceeds("stdout", float64(l.Stdout), float64(most.Stdout))
	exceeds("stderr", float64(l.Stderr), float64(most.Stderr))
	exceeds("disk", float64(l.Disk), float64(most.Disk))
	exceeds("files", float64(l.Files), float64(most.Files))
}

func (c *checker) admission(a Admission) {
	for i, k := range a.ServiceKeys {
		at := fmt.Sprintf("admission.service_keys[%d]", i)
		c.match(at+".id", k.ID, nameExpr)
		switch {
		case (k.KeyEnv == "") == (k.KeyFile == ""):
			c.fail(at, "needs either key_env or key_file")
		case k.KeyEnv != "":
			c.match(at+".key_env", k.KeyEnv, envExpr)
		}
	}
	if a.ServiceKeyWallet != "" {
		c.match("admission.service_key_wallet", a.ServiceKeyWallet, orgExpr)
	}
	if a.Bearer == nil {
		return
	}
	for _, required := range []struct{ key, value string }{
		{"issuer", a.Bearer.Issuer}, {"jwks_url", a.Bearer.JWKSURL},
	} {
		if required.value == "" {
			c.fail("admission.bearer."+required.key, "is required")
		}
	}
	if len(a.Bearer.Audiences) == 0 || slices.Contains(a.Bearer.Audiences, "") {
		c.fail("admission.bearer.audiences", "must list at least one audience, and no empty one")
	}
	if time.Duration(a.Bearer.Leeway) > maxLeeway {
		c.fail("admission.bearer.leeway", "must be at most %v", maxLeeway)
	}
	if a.Bearer.JWKSURL != "" && !trustworthy(a.Bearer.JWKSURL) {
		c.fail("admission.bearer.jwks_url", "must be an https URL (plain http only to this machine)")
	}
}

// choice lets an absent key be.
func (c *checker) choice(field, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		c.fail(field, "must be one of %s", strings.Join(words, ", "))
	}
}

func (c *checker) admin(f File) {
	switch a := f.Admin; {
	case a.Listen == "" && a.Credential == (Secret{}):
	case a.Listen == "":
		c.fail("admin.credential", "has no meaning without admin.listen")
	case a.Listen == f.Listen:
		c.fail("admin.listen", "must not be the address of callers")
	default:
		if _, _, err := net.SplitHostPort(a.Listen); err != nil {
			c.fail("admin.listen", "must be HOST:PORT")
		}
		c.secret("admin.credential", a.Credential)
	}
}

func (c *checker) secret(field string, s Secret) {
	switch {
	case (s.Env == "") == (s.File == ""):
		c.fail(field, "needs either env or file")
	case s.Env != "":
		c.match(field+".env", s.Env, envExpr)
	}
}

// maxLeeway bounds how long an expired token may still be good.
const maxLeeway = 5 * time.Minute

// trustworthy: whoever can answer for the key set can mint tokens.
func trustworthy(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
	return u.Scheme == "https" || (u.Scheme == "http" && local)
}

func validPort(s string) bool {
	p, err := strconv.ParseUint(s, 10, 16)
	return err == nil && p <= 65535
}
