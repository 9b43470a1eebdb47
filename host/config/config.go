package config

import (
	"time"
)

// File is a configuration that has been read, checked and completed with the
// defaults. It is plain data: change a copy freely.
type File struct {
	// Listen is the address to serve on, HOST:PORT.
	Listen string `yaml:"listen"`
	// Data is the data directory; empty leaves the choice to the program.
	Data string `yaml:"data"`
	// Deployment tells this deployment's sandboxes from others at a shared
	// provider; Node names this machine for backends that keep sandboxes on it.
	Deployment string `yaml:"deployment"`
	Node       string `yaml:"node"`
	// Peers are the other nodes, which are asked about their own sandboxes.
	Peers []Peer `yaml:"peers"`
	// BrandOrg is the organisation that service keys act for.
	BrandOrg string `yaml:"brand_org"`
	// StrictDigests refuses plugins whose manifest pins no digest.
	StrictDigests bool `yaml:"strict_digests"`
	// Drain is how long runs in flight may finish when the server stops.
	Drain Duration `yaml:"drain"`

	Plugins Plugins `yaml:"plugins"`

	// DefaultBackend is the id of the backend that new sessions use.
	DefaultBackend string    `yaml:"default_backend"`
	Backends       []Backend `yaml:"backends"`
	Policies       []Policy  `yaml:"policies"`
	// DecisionLog is a file to which every decision of the policies is appended.
	DecisionLog string `yaml:"decision_log"`
	// Languages are the names of language table plugins; later ones override.
	Languages []string `yaml:"languages"`

	// Limits apply to runs that ask for nothing, MaxLimits to those that ask for
	// much. Zero members leave the choice to the host.
	Limits    Limits `yaml:"limits"`
	MaxLimits Limits `yaml:"max_limits"`

	Sessions  Sessions  `yaml:"sessions"`
	Requests  Requests  `yaml:"requests"`
	Uploads   Uploads   `yaml:"uploads"`
	Artifacts Artifacts `yaml:"artifacts"`
	Queue     Queue     `yaml:"queue"`
	Rates     Rates     `yaml:"rates"`
	Telemetry Telemetry `yaml:"telemetry"`
	Programs  Programs  `yaml:"programs"`
	Admission Admission `yaml:"admission"`
	MCP       MCP       `yaml:"mcp"`
	Admin     Admin     `yaml:"admin"`
	Billing   Billing   `yaml:"billing"`
}

// Plugins says where plugins are.
type Plugins struct {
	// Keys are minisign public keys; with any, only plugins whose manifest one of
	// them signed are used.
	Keys []string `yaml:"keys"`
	// Dirs are searched in order for NAME/plugin.yaml. Empty leaves the choice
	// to the program.
	Dirs []string `yaml:"dirs"`
}

// Backend is one named config of a backend plugin.
type Backend struct {
	// ID is stamped on sandboxes; it is the plugin's name when the file does not
	// say.
	ID     string `yaml:"id"`
	Plugin string `yaml:"plugin"`
	// Tenant, when set, is the only one that may use it by name.
	Tenant string `yaml:"tenant"`
	// Config is the plugin's own configuration.
	Config Object `yaml:"config"`
	// Secrets become members of Config when the host opens.
	Secrets map[string]Secret `yaml:"secrets"`
}

// Policy is one policy of the chain.
type Policy struct {
	Plugin string `yaml:"plugin"`
	Config Object `yaml:"config"`
	// Mode is what its verdicts do: deny (empty), warn or observe.
	Mode string `yaml:"mode"`
	// Fail is FailClosed (empty) or FailOpen.
	Fail string `yaml:"fail"`
}

// What becomes of requests that a policy fails to judge.
const (
	FailClosed = "closed"
	FailOpen   = "open"
)

// Limits bound a run; see backend.Limits.
type Limits struct {
	Wall      Duration `yaml:"wall"`
	CPU       Duration `yaml:"cpu"`
	Memory    Size     `yaml:"memory"`
	CPUs      Number   `yaml:"cpus"`
	Processes Count    `yaml:"processes"`
	Stdout    Size     `yaml:"stdout"`
	Stderr    Size     `yaml:"stderr"`
	Disk      Size     `yaml:"disk"`
	Files     Count    `yaml:"files"`
}

// Kinds of session store.
const (
	StoreMemory = "memory"
	StoreSQLite = "sqlite"
	StoreRedis  = "redis"
)

// RedisVariable holds the address of the session store unless the file names
// another place.
const RedisVariable = "CAISSON_REDIS_URL"

// Sessions are the clocks of sessions (see session.Clocks), and where replicas
// agree on who has which sandbox.
type Sessions struct {
	TTL          Duration `yaml:"ttl"`
	Idle         Duration `yaml:"idle"`
	UnusedUpload Duration `yaml:"unused_upload"`
	Sweep        Duration `yaml:"sweep"`
	// Grace protects new sandboxes from being taken for forgotten ones.
	Grace Duration `yaml:"grace"`
	// Store is StoreMemory, StoreSQLite (a file in the data directory) or StoreRedis.
	Store string `yaml:"store"`
	// Redis says where the URL of the server is, which may hold a password.
	Redis Secret `yaml:"redis"`
}

// Peer is another replica of the deployment.
type Peer struct {
	// Node is the replica's own name, URL where it answers.
	Node string `yaml:"node"`
	URL  string `yaml:"url"`
}

// Requests bound what a caller may send to run.
type Requests struct {
	// MaxBytes is the most that one JSON body may hold.
	MaxBytes Size `yaml:"max_bytes"`
	// Memory is what all bodies that are read and run at once may take.
	Memory Size `yaml:"memory"`
}

// Uploads bound what callers store without running anything.
type Uploads struct {
	// MaxBytes is the most that one file may hold, MaxFiles how many one request
	// may bring.
	MaxBytes Size  `yaml:"max_bytes"`
	MaxFiles Count `yaml:"max_files"`
	// TenantFiles and TenantBytes bound what one organisation keeps in uploads.
	TenantFiles Count `yaml:"tenant_files"`
	TenantBytes Size  `yaml:"tenant_bytes"`
}

// Artifacts bound the changed files that a run hands back.
type Artifacts struct {
	MaxFiles     Count `yaml:"max_files"`
	MaxFileBytes Size  `yaml:"max_file_bytes"`
	MaxDepth     Count `yaml:"max_depth"`
}

// Queue bounds the runs that are under way and those that wait, in all and for
// each organisation. What exceeds it is refused with 429.
type Queue struct {
	Running       Count `yaml:"running"`
	Waiting       Count `yaml:"waiting"`
	TenantRunning Count `yaml:"tenant_running"`
	TenantWaiting Count `yaml:"tenant_waiting"`
	// TenantShare takes the place of TenantRunning, for runs on this machine, while other
	// organisations have runs too.
	TenantShare Count `yaml:"tenant_share"`
	// MaxWait is how long a run waits for its turn.
	MaxWait Duration `yaml:"max_wait"`
	// Memory bounds what the runs under way on this machine may use together by
	// their limits, TenantMemory what those of one organisation may.
	Memory       Size `yaml:"memory"`
	TenantMemory Size `yaml:"tenant_memory"`
}

// Rates bound how often a principal may send requests. What exceeds them is refused
// with 429.
type Rates struct {
	// Users are for each user of an organisation, ServiceKeys for each service key.
	Users       RateSet `yaml:"users"`
	ServiceKeys RateSet `yaml:"service_keys"`
	// Principals is how many are remembered.
	Principals Count `yaml:"principals"`
}

// RateSet has a rate for each class of requests.
type RateSet struct {
	Runs      Rate `yaml:"runs"`
	Rounds    Rate `yaml:"rounds"`
	Uploads   Rate `yaml:"uploads"`
	Downloads Rate `yaml:"downloads"`
	Reads     Rate `yaml:"reads"`
}

// Rate lets Burst requests through at once, and then Requests in each Per.
type Rate struct {
	Requests Count    `yaml:"requests"`
	Per      Duration `yaml:"per"`
	Burst    Count    `yaml:"burst"`
}

// Telemetry says who may read metrics and where traces come from. Where spans are sent
// the variables of OpenTelemetry say.
type Telemetry struct {
	// PublicMetrics answers GET /metrics where callers are answered too, to everybody.
	PublicMetrics bool `yaml:"public_metrics"`
	// TrustTraceparent makes the server's spans part of the traces that callers name.
	TrustTraceparent bool `yaml:"trust_traceparent"`
}

// Programs bound the programs that call tools of their callers. They keep their memory
// while they wait.
type Programs struct {
	// Live is how many there may be that have not ended, TenantLive how many of each
	// organisation. What exceeds it is refused with 429.
	Live       Count `yaml:"live"`
	TenantLive Count `yaml:"tenant_live"`
	// TTL is how long one waits for what it asked for.
	TTL Duration `yaml:"ttl"`
}

// MCP is the Model Context Protocol at /mcp, under the admission, policies, limits and
// prices of every other request.
type MCP struct {
	// Enabled says that it is answered.
	Enabled bool `yaml:"enabled"`
	// Hosts are the names under which clients call the server; empty looks only at what
	// comes over the loopback device, which has to be for a loopback name.
	Hosts []string `yaml:"hosts"`
	// Sessions bounds the protocol's sessions of each caller, Idle is how long one lasts
	// without a request.
	Sessions Count    `yaml:"sessions"`
	Idle     Duration `yaml:"idle"`
	// OutputBytes is the most of each text that a tool hands back.
	OutputBytes Size `yaml:"output_bytes"`
}

// Admin is an address for operators. The command line of this machine does not
// need it.
type Admin struct {
	// Listen is HOST:PORT, never that of callers; empty means no address.
	Listen string `yaml:"listen"`
	// Credential says where the bearer token is that operators bring.
	Credential Secret `yaml:"credential"`
}

// Admission says who is let in.
type Admission struct {
	// ServiceKeys admit for BrandOrg. Two of one id count as one, so that a key
	// can be rotated while both are in use.
	ServiceKeys []ServiceKey `yaml:"service_keys"`
	// ServiceKeyWallet pays for runs under a service key; empty means that such
	// runs are unbilled.
	ServiceKeyWallet string `yaml:"service_key_wallet"`
	// Bearer, when set, admits users by token. Without it a token beside a key is
	// passed over.
	Bearer *Bearer `yaml:"bearer"`
}

// ServiceKey is one shared key. Exactly one of KeyEnv and KeyFile says where
// the key is.
type ServiceKey struct {
	ID      string `yaml:"id"`
	KeyEnv  string `yaml:"key_env"`
	KeyFile string `yaml:"key_file"`
}

// Secret says where k is.
func (k ServiceKey) Secret() Secret { return Secret{Env: k.KeyEnv, File: k.KeyFile} }

// Bearer says which tokens are accepted.
type Bearer struct {
	Issuer string `yaml:"issuer"`
	// Audiences: a token must be for one of them.
	Audiences []string `yaml:"audiences"`
	JWKSURL   string   `yaml:"jwks_url"`
	// OrgClaim names the claim that holds the organisation, PayerClaim that of
	// the wallet; empty means "org_id", and that the organisation pays.
	OrgClaim   string `yaml:"org_claim"`
	PayerClaim string `yaml:"payer_claim"`
	// Leeway is how far clocks may differ, at most maxLeeway.
	Leeway Duration `yaml:"leeway"`
}

// Kinds of ledger.
const (
	LedgerSQLite = "sqlite"
	LedgerNone   = "none"
)

// Billing says who keeps the books.
type Billing struct {
	// Ledger is LedgerSQLite or LedgerNone.
	Ledger string `yaml:"ledger"`
	// Path of the SQLite file; empty means ledger.db in the data directory.
	Path string `yaml:"path"`
	// HoldTTL is how long money is held for a run that never starts.
	HoldTTL Duration `yaml:"hold_ttl"`
}

// Names of the parts that a deployment has when its file does not say.
const (
	DefaultListen  = "127.0.0.1:8080"
	DefaultBackend = "wasm"
	// KeyVariable holds the service key, called "env", unless the file names others.
	KeyVariable = "CODE_EXEC_API_KEY"
)

// Default is what an empty file means: programs run in the embedded
// WebAssembly backend, a service key is taken from KeyVariable, and a SQLite
// ledger keeps the books.
func Default() File {
	f := defaults()
	f.complete()
	return f
}

// defaults are the values that decoding writes over.
func defaults() File {
	return File{
		Listen:     DefaultListen,
		Deployment: "default",
		BrandOrg:   "default",
		Drain:      Duration(30 * time.Second),
		Policies:   []Policy{{Plugin: "limits"}},
		Languages:  []string{"languages"},
		Sessions:   Sessions{Store: StoreMemory},
		MCP:        MCP{Enabled: true},
		Admission:  Admission{ServiceKeys: []ServiceKey{{ID: "env", KeyEnv: KeyVariable}}},
		Billing:    Billing{Ledger: LedgerSQLite},
	}
}

// complete fills what depends on other keys.
func (f *File) complete() {
	if len(f.Backends) == 0 {
		f.Backends = []Backend{{ID: DefaultBackend, Plugin: "wasm"}}
	}
	for i := range f.Backends {
		if f.Backends[i].ID == "" {
			f.Backends[i].ID = f.Backends[i].Plugin
		}
	}
	if f.Sessions.Store == StoreRedis && f.Sessions.Redis == (Secret{}) {
		f.Sessions.Redis.Env = RedisVariable
	}
	if f.DefaultBackend == "" && len(f.Backends) == 1 {
		f.DefaultBackend = f.Backends[0].ID
	}
}
