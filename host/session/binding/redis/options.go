package redis

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/caisson-run/caisson/host/session/binding"
)

// DefaultNamespace begins the names of all keys.
const DefaultNamespace = "caisson"

// Options say which server keeps the bindings. They hold secrets, which their
// formatted forms leave out.
type Options struct {
	// Addrs are "host:port" or the absolute path of a unix socket: one server; the
	// sentinels of Master; or nodes of a cluster.
	Addrs []string
	// Master is the name that the sentinels at Addrs know the server by.
	Master string
	// Cluster says that Addrs are nodes of a cluster; with more than one address
	// and no Master it is implied.
	Cluster bool
	// DB is the database number; a cluster has only 0.
	DB int
	// Username and Password are an ACL user's; without a user name, the default user's.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername, SentinelPassword string
	// TLS protects connections; nil is none.
	TLS *tls.Config
	// Namespace keeps deployments apart that share a server: letters, digits and
	// "_-.", at most 64; empty is DefaultNamespace.
	Namespace string
	// PoolSize is how many connections there may be to each server; 0 means 16 for
	// each processor.
	PoolSize int
	// Store is passed to binding.New.
	Store binding.Options
}

// Format writes where the server is, and nothing else.
func (o Options) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "redis %s db %d namespace %s", strings.Join(o.Addrs, ","), o.DB, o.namespace())
}

func (o Options) namespace() string {
	if o.Namespace == "" {
		return DefaultNamespace
	}
	return o.Namespace
}

// ParseURL reads options from one setting:
//
//	redis://user:password@host:6379/0        one server; rediss:// for TLS
//	unix://user:password@/path/of.sock?db=0  a socket
//	redis://host:26379?master=name           sentinels
//	redis://host:6379?cluster=true           a cluster
//
// Further parameters: addr (repeated, more addresses), namespace, and, for
// sentinels, sentinel_username and sentinel_password. Errors are [binding.FieldError]
// and never repeat the URL, which may hold a password.
func ParseURL(text string) (Options, error) {
	bad := func(rule string) (Options, error) {
		return Options{}, &binding.FieldError{Field: "redis url", Rule: rule}
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("must be a URL like redis://host:6379/0")
	}
	var o Options
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("has a query that cannot be read")
	}
	db := q.Get("db")
	switch u.Scheme {
	case "redis", "rediss":
		if u.Hostname() == "" {
			return bad("must name a host")
		}
		port := u.Port()
		if port == "" {
			port = "6379"
		}
		o.Addrs = []string{joinHostPort(u.Hostname(), port)}
		if path := strings.Trim(u.Path, "/"); path != "" {
			db = path
		}
		if u.Scheme == "rediss" {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			if q.Get("master") == "" && len(q["addr"]) == 0 {
				o.TLS.ServerName = u.Hostname()
			}
		}
	case "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return bad("must be unix:///absolute/path for a socket")
		}
		o.Addrs = []string{u.Path}
	default:
		return bad("must begin with redis://, rediss:// or unix://")
	}
	if db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return bad("must have a database number that is not negative")
		}
	}
	for name, values := range q {
		if len(values) > 1 && name != "addr" {
			return bad("must have " + strconv.Quote(name) + " once")
		}
		switch value := values[0]; name {
		case "db":
		case "addr":
			o.Addrs = append(o.Addrs, values...)
		case "master":
			o.Master = value
		case "namespace":
			o.Namespace = value
		case "sentinel_username":
			o.SentinelUsername = value
		case "sentinel_password":
			o.SentinelPassword = value
		case "cluster":
			if o.Cluster, err = strconv.ParseBool(value); err != nil {
				return bad(`must have a "cluster" of true or false`)
			}
		default:
			return bad("has an unknown parameter; known are addr, cluster, db, master, namespace, sentinel_username and sentinel_password")
		}
	}
	return o, o.validate()
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

func (o Options) validate() error {
	bad := func(field, rule string) error { return &binding.FieldError{Field: "redis " + field, Rule: rule} }
	switch {
	case len(o.Addrs) == 0 || slices.Contains(o.Addrs, ""):
		return bad("addrs", "must name at least one address")
	case o.DB < 0:
		return bad("db", "must not be negative")
	case o.cluster() && o.DB != 0:
		return bad("db", "must be 0 for a cluster")
	case o.Cluster && o.Master != "":
		return bad("master", "must be empty for a cluster")
	case o.PoolSize < 0:
		return bad("pool size", "must not be negative")
	case len(o.namespace()) > 64:
		return bad("namespace", "must not be longer than 64 bytes")
	}
	for _, c := range []byte(o.namespace()) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return bad("namespace", "may contain letters, digits and _-. only")
		}
	}
	return nil
}

func (o Options) cluster() bool { return o.Cluster || (o.Master == "" && len(o.Addrs) > 1) }

// Silence ends the client library's own log, which is one for the whole process and
// repeats on stderr what is returned as errors. It is for programs that use the library
// for nothing else.
func Silence() { logging.Disable() }

// client makes the client. It connects when it is used. Whatever it does on its own is
// bounded: one repetition of a step, each attempt within the step's context.
func (o Options) client(opTimeout time.Duration) goredis.UniversalClient {
	pool := o.PoolSize
	if pool == 0 {
		pool = 16 * runtime.GOMAXPROCS(0)
	}
	return goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.Master, IsClusterMode: o.cluster(), DB: o.DB,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		TLSConfig: o.TLS, PoolSize: pool,
		ContextTimeoutEnabled: true,
		DialTimeout:           opTimeout, ReadTimeout: opTimeout, WriteTimeout: opTimeout, PoolTimeout: opTimeout,
		MaxRetries: 1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
