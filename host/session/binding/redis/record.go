package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// keys are the names of one session's keys. They share a hash tag, so that a cluster
// keeps them in one slot; the tenant's length before it makes the tag unambiguous.
type keys string

func (e *Engine) keys(k binding.Key) keys {
	return keys(e.prefix(k.Tenant) + k.Session + "}:")
}

func (e *Engine) prefix(tenant string) string {
	return e.namespace + ":{" + strconv.Itoa(len(tenant)) + ":" + tenant + ":"
}

func (k keys) binding() string { return string(k) + "binding" }
func (k keys) lock() string    { return string(k) + "lock" }
func (k keys) rewind() string  { return string(k) + "rewind" }
func (k keys) turns() string   { return string(k) + "turns" }
func (k keys) work() string    { return string(k) + "work" }
func (k keys) data() string    { return string(k) + "data" }

// parse is the reverse of keys.binding.
func (e *Engine) parse(name string) (binding.Key, bool) {
	rest, ok := strings.CutPrefix(name, e.namespace+":{")
	if !ok {
		return binding.Key{}, false
	}
	length, rest, ok := strings.Cut(rest, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n >= len(rest) || rest[n] != ':' {
		return binding.Key{}, false
	}
	session, ok := strings.CutSuffix(rest[n+1:], "}:binding")
	k := binding.Key{Tenant: rest[:n], Session: session}
	return k, ok && k.Validate() == nil && e.keys(k).binding() == name
}

// pattern matches the binding keys of a tenant, of all if it is empty.
func (e *Engine) pattern(tenant string) string {
	if tenant == "" {
		return e.namespace + ":{*}:binding"
	}
	return globs.Replace(e.prefix(tenant)) + "*}:binding"
}

var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// fields are a binding as a hash: every member that is not empty, as text.
func fields(b binding.Binding) []any {
	list := []any{
		"v", strconv.Itoa(binding.Version), "tenant", b.Tenant, "session", b.Session,
		"provider", b.Provider, "sandbox", b.Sandbox, "created", strconv.FormatInt(b.Created.UnixMilli(), 10),
	}
	for _, f := range []struct{ name, value string }{{"config", b.Config}, {"template", b.Template}, {"token", b.Token}} {
		if f.value != "" {
			list = append(list, f.name, f.value)
		}
	}
	if !b.Stale.IsZero() {
		list = append(list, "stale", strconv.FormatInt(b.Stale.UnixMilli(), 10))
	}
	return list
}

// decode reads the hash of a session's binding: names and values in turn. It is
// strict, so that nothing half understood is acted upon. Errors hold no values.
func decode(k binding.Key, hash []any) (b binding.Binding, bound bool, err error) {
	if len(hash) == 0 {
		return b, false, nil
	}
	damaged := func(what string) (binding.Binding, bool, error) {
		return binding.Binding{}, false, fmt.Errorf("%w: %s", binding.ErrCorrupt, what)
	}
	version, unknown, created := "", "", ""
	for i := 0; i+1 < len(hash); i += 2 {
		name, _ := hash[i].(string)
		value, _ := hash[i+1].(string)
		switch name {
		case "v":
			version = value
		case "tenant":
			b.Tenant = value
		case "session":
			b.Session = value
		case "provider":
			b.Provider = value
		case "sandbox":
			b.Sandbox = value
		case "config":
			b.Config = value
		case "template":
			b.Template = value
		case "token":
			b.Token = value
		case "created":
			created = value
		case "stale":
			if b.Stale, err = millis(value); err != nil {
				unknown = "stale"
			}
		default:
			unknown = name
		}
	}
	if version != strconv.Itoa(binding.Version) {
		return binding.Binding{}, false, &binding.SchemaError{Version: version}
	}
	if b.Created, err = millis(created); err != nil {
		return damaged("created is not a time")
	}
	if unknown != "" {
		return damaged(fmt.Sprintf("field %.20q is not one of version %d or not readable", unknown, binding.Version))
	}
	if b.Key != k {
		return damaged("it is the record of another session")
	}
	if err := b.Validate(); err != nil {
		return damaged(err.Error())
	}
	return b, true, nil
}

func millis(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(n).UTC(), nil
}
