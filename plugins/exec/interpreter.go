package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/peer"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/internal/machine"
	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
	"github.com/caisson-run/caisson/plugins/exec/internal/options"
	"github.com/caisson-run/caisson/plugins/exec/internal/programmatic"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// Path is where the code interpreter answers. Other spellings are aliases.
const Path = "/v1/exec"

// Options of New. Zero members take the default that their comment names.
type Options struct {
	// Bases are the path prefixes below which every route answers: "", "/v1" and
	// Path. A platform that has a /health or a /files of its own leaves "" out.
	Bases []string
	// Fee is the price of one run in cents, asked for each run: host.Fee of the
	// process's environment, 1 cent when it says nothing.
	Fee func() int64

	// Running and Waiting bound the runs at once and those that wait, in all:
	// 4 for each processor and 256.
	Running, Waiting int
	// TenantRunning and TenantWaiting bound them for each tenant: half of
	// Running and 32.
	TenantRunning, TenantWaiting int
	// TenantShare takes the place of TenantRunning, for runs on this machine, while another
	// tenant has runs there, or has had any within ten seconds: half the processors, at least 1.
	TenantShare int
	// MaxWait is how long a run waits for its turn: one minute.
	MaxWait time.Duration
	// MemoryBytes bounds the memory that the runs under way on this machine declare
	// together, by their limits, and TenantMemoryBytes that of each tenant: what the machine
	// has, or the process's control group allows, and half of that. Runs at a provider
	// elsewhere do not count.
	MemoryBytes, TenantMemoryBytes int64

	// Rates are how often each user may send requests, KeyRates how often each
	// service key may: DefaultRates and DefaultKeyRates. RatePrincipals is how many
	// principals are remembered for it: 10,000.
	Rates, KeyRates map[RateClass]Rate
	RatePrincipals  int
	// Limiter takes the place of Rates.
	Limiter RateLimiter

	// BodyBytes bounds a JSON body: 16 MiB.
	BodyBytes int64
	// BodyMemoryBytes bounds the memory of all JSON bodies that are read and run at once, half
	// of it those of each tenant: an eighth of what the machine has. A body counts for 12 times
	// its bytes until it is decoded, results of tools for 4 times, and then for what is kept of
	// it; the first 64 KiB count for nothing. One of the largest has room in any case.
	BodyMemoryBytes int64
	// BodyIdle is how long the server waits for 16 KiB of a body, or for its end: 30 s.
	// BodyTime bounds it as a whole: 15 minutes.
	BodyIdle, BodyTime time.Duration
	// UploadBytes bounds one uploaded file, and with some overhead all files of an
	// upload that is no batch: 150 MiB.
	UploadBytes int64
	// BatchBytes bounds the body of one batch of uploads: four times UploadBytes.
	BatchBytes int64
	// UploadFiles bounds the files of one request: 1000.
	UploadFiles int
	// QuotaFiles and QuotaBytes bound what each tenant keeps in uploads: 10,000
	// files and 10 GiB.
	QuotaFiles, QuotaBytes int64

	// ChangedFiles, ChangedFileBytes and ChangedDepth bound what a run hands
	// back: 100 files of 50 MiB each, 16 directories deep.
	ChangedFiles     int
	ChangedFileBytes int64
	ChangedDepth     int

	// Programs bounds the programs that call tools and have not ended, TenantPrograms
	// those of each tenant: 32 and 8. They keep their memory while they wait.
	Programs, TenantPrograms int
	// ProgramTTL is how long such a program waits for what it asked for: 10 minutes.
	ProgramTTL time.Duration

	// KeepAlive is the time between two bytes that keep a waiting client's
	// connection open, and before the first: 3 s.
	KeepAlive time.Duration
	// Stall is how long a reader of an answer may take for 64 KiB before it is
	// treated as gone: 30 s.
	Stall time.Duration
	// Now is the clock: time.Now.
	Now func() time.Time
}

func (o Options) complete() (Options, error) {
	options.Default(&o.Running, 4*runtime.GOMAXPROCS(0))
	options.Default(&o.Waiting, 256)
	options.Default(&o.TenantRunning, max(1, o.Running/2))
	options.Default(&o.TenantWaiting, 32)
	options.Default(&o.TenantShare, max(1, runtime.GOMAXPROCS(0)/2))
	options.Default(&o.MaxWait, time.Minute)
	options.Default(&o.MemoryBytes, machine.Memory())
	options.Default(&o.TenantMemoryBytes, o.MemoryBytes/2)
	options.Default(&o.RatePrincipals, 10_000)
	options.Default(&o.BodyBytes, 16<<20)
	options.Default(&o.BodyMemoryBytes, machine.Memory()/8)
	options.Default(&o.BodyIdle, 30*time.Second)
	options.Default(&o.BodyTime, 15*time.Minute)
	options.Default(&o.UploadBytes, 150<<20)
	options.Default(&o.BatchBytes, 4*o.UploadBytes)
	options.Default(&o.UploadFiles, 1000)
	options.Default(&o.QuotaFiles, 10_000)
	options.Default(&o.QuotaBytes, 10<<30)
	options.Default(&o.ChangedFiles, 100)
	options.Default(&o.ChangedFileBytes, 50<<20)
	options.Default(&o.ChangedDepth, 16)
	options.Default(&o.Programs, 32)
	options.Default(&o.TenantPrograms, 8)
	options.Default(&o.ProgramTTL, 10*time.Minute)
	options.Default(&o.KeepAlive, 3*time.Second)
	options.Default(&o.Stall, 30*time.Second)
	if o.Bases == nil {
		o.Bases = []string{"", "/v1", Path}
	}
	if o.Fee == nil {
		o.Fee = func() int64 { return host.Fee(os.LookupEnv, string(host.ActRun), 1) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := options.NoneNegative(o); err != nil {
		return o, fmt.Errorf("exec: %w", err)
	}
	if o.Limiter == nil {
		var err error
		if o.Limiter, err = newRates(o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// services is what the interpreter needs of a host. *host.Host implements it.
type services interface {
	Sessions() *minted.Sessions
	Keys() *identity.Keys
	Peers() *peer.Peers
	Limits(t session.Target, want backend.Limits) backend.Limits
	Offers(t session.Target) []host.Offer
	Plan(ctx context.Context, t session.Target, lang string, args []string) (id, toolchain string, plan language.Plan, err error)
	Admit(ctx context.Context, r policy.Request) (host.Ruling, error)
	Telemetry() *telemetry.Telemetry
	Reviews() bool
	Review(ctx context.Context, o policy.Outcome) []host.PolicyWarning
	Ready(ctx context.Context) error
}

var _ services = (*host.Host)(nil)

// Interpreter runs code and keeps files for callers. It is safe for concurrent
// use.
type Interpreter struct {
	o    Options
	host services
	// telemetry may be nil.
	telemetry *telemetry.Telemetry

	transfers transfers

	queue *queue.Queue
	looks looks
	// bodies is the memory of JSON bodies.
	bodies *bodies.Budget
	quota  *quota.Quota
	// removals are of files, by session and path.
	removals claims
	// programs are those that call tools.
	programs *programmatic.Registry[outcome]

	// life ends when the entry is closed and may not wait any longer.
	life context.Context
	kill context.CancelFunc
}

// New returns an Interpreter on h. It starts nothing.
func New(h *host.Host, o Options) (*Interpreter, error) {
	if h == nil {
		return nil, errors.New("exec: no host")
	}
	return newInterpreter(h, o)
}

func newInterpreter(s services, o Options) (*Interpreter, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	i := &Interpreter{o: o, host: s, telemetry: s.Telemetry()}
	i.queue = queue.New(queue.Limits{
		Running: o.Running, Waiting: o.Waiting, TenantRunning: o.TenantRunning, TenantWaiting: o.TenantWaiting,
		TenantShare: o.TenantShare, Memory: o.MemoryBytes, TenantMemory: o.TenantMemoryBytes,
	})
	i.looks = newLooks(o.MaxWait)
	i.bodies = newBodies(o)
	i.transfers = newTransfers()
	i.quota = quota.New(quota.Usage{Files: o.QuotaFiles, Bytes: o.QuotaBytes}, holdings{i}, o.Now)
	i.programs = newPrograms(o, s)
	i.life, i.kill = context.WithCancel(context.Background())
	return i, nil
}

// Entry returns the routes, to be mounted once. Runs in flight are given until
// the host's Close gives up on them.
func (i *Interpreter) Entry() host.Entry {
	return host.Entry{
		Name:  "exec",
		Price: host.Metered,
		Mount: func(_ context.Context, m *host.Mounting) error {
			d := &door{Interpreter: i, billing: m.Billing, standing: m.Standing, admits: m.AdmissionReady, log: m.Log}
			d.mount(m)
			return nil
		},
	}
}

// mounting is what mount needs of a *host.Mounting.
type mounting interface {
	Prefixes(prefixes ...string)
	Handle(pattern string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, *host.HTTPError))
	HandlePublic(pattern string, h http.Handler)
	Intercept(f func(http.ResponseWriter, *http.Request) bool)
	OnClose(f func(context.Context) error)
}

var _ mounting = (*host.Mounting)(nil)

// Run runs one program for org and returns what came of it. It charges nothing:
// whoever calls it sells something of their own. A program that fails is a
// result; an error is a refusal or a failure of the interpreter, a
// *host.HTTPError that says which, or ctx's own.
//
// org is the tenant, established by the caller and never read from the request.
// The session in the result lives on until its clocks or End end it.
func (i *Interpreter) Run(ctx context.Context, org string, in *CodeRun) (*CodeResult, error) {
	if org == "" {
		return nil, refuse(http.StatusForbidden, "forbidden", "no organisation")
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	place, err := i.join(org)
	if err != nil {
		return nil, err
	}
	defer place.Leave()
	c := &call{
		in: in, place: place, principal: host.Principal{Org: org, Via: host.ViaInternal},
		billing: host.Free, log: hclog.NewNullLogger(),
	}
	return i.run(ctx, c)
}

// End drops a session now instead of leaving it to its clocks: for callers whose
// work is over at the answer. A session that does not exist, or is not org's, is
// success.
func (i *Interpreter) End(ctx context.Context, org, sessionID string) error {
	err := i.host.Sessions().End(ctx, session.Owner{Tenant: org}, sessionID)
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	return err
}
