package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/hashicorp/go-hclog"
)

// Platform is what an embedding program gives Caisson: where to answer, whom
// to let in, whom to charge and where to log. The zero value of a field is
// never "allow": a host without Admission refuses every request, and an entry
// whose price is Metered does not mount without Billing.
type Platform struct {
	// Router receives the routes of every mounted entry.
	Router Router
	// Admission turns a request into a Principal.
	Admission Admission
	// Billing charges Metered entries. Use Free for a deployment without prices.
	Billing Billing
	// Log receives everything the host and its plugins log.
	Log hclog.Logger
	// Telemetry measures what the host and its entries do; nil measures nothing.
	Telemetry *telemetry.Telemetry
}

// Router is the part of *http.ServeMux that entries need. Patterns follow
// net/http ("POST /v1/exec", "GET /v1/exec/files/{sid}").
type Router interface {
	Handle(pattern string, handler http.Handler)
}

// Via says which credential admitted a principal.
type Via string

const (
	// ViaBearer is a verified user token; the tenant is the token's organisation.
	ViaBearer Via = "bearer"
	// ViaServiceKey is the deployment's shared key; the tenant is the deployment's own organisation.
	ViaServiceKey Via = "service_key"
	// ViaInternal is a call composed inside the process, never an HTTP request.
	ViaInternal Via = "internal"
)

// Principal is who a request acts for. It comes from Admission only; nothing
// in a request's path, query, body or unverified headers may change it.
type Principal struct {
	// Org is the tenant: every session, file and quota belongs to one. Never empty.
	Org string
	// User is the person or program within Org; empty when the credential names none.
	User string
	// Via is the credential that admitted the request.
	Via Via
	// KeyID names the service key that took part in admission, without
	// revealing it; empty when none did. Sessions made under a key may be used
	// under the same key (docs/wire.md).
	KeyID string
	// Payer is the wallet that pays; empty means nobody does, and the call is unbilled.
	Payer Payer
	// Project narrows Payer for reports; empty is fine.
	Project string
	// RequestID identifies the request in logs and usage records. Admission leaves it
	// empty unless the platform has an id of its own for the request (see RequestID).
	RequestID string
}

// Payer names a wallet. The zero Payer is unbilled by design: a shared service
// key has no wallet unless the operator configures one.
type Payer string

// Act names what is consumed.
type Act string

const (
	// ActRun is one program run; it has a price.
	ActRun Act = "run"
	// ActLease is held sandbox time in seconds, metered apart from runs and priced 0 by default.
	ActLease Act = "lease"
	// ActUpload stores bytes; it is not billed but needs standing.
	ActUpload Act = "upload"
)

// Admission decides who a request acts for. Implementations are safe for
// concurrent use and must not read the request body.
type Admission interface {
	// Admit returns the principal of r, or an *HTTPError (401 no or wrong
	// credential, 403 no tenant, 503 not configured or not reachable). Any
	// other error is answered as 503: unknown standing is no standing.
	Admit(r *http.Request) (Principal, error)
	// Standing says whether p may consume act now, for acts that are not billed
	// themselves. It returns nil, ErrInsufficient, ErrCap or ErrUnavailable
	// (possibly wrapped).
	Standing(ctx context.Context, p Principal, act Act) error
}

// Billing reserves and charges money. Implementations are safe for concurrent use.
type Billing interface {
	// Reserve holds cents of payer's balance for one act before anything is
	// leased. It returns ErrInsufficient, ErrCap or ErrUnavailable (possibly
	// wrapped) and then holds nothing. A zero payer or cents <= 0 yields a
	// charge that costs nothing. ctx is the request's own.
	Reserve(ctx context.Context, payer Payer, act Act, cents int64) (Charge, error)
}

// Charge is one held amount. Exactly one of Debit and Release takes effect,
// whichever comes first; the other and any repetition are no-ops. All methods
// are safe for concurrent use.
type Charge interface {
	// Debit takes the amount that was reserved, whatever u.Cents says, and records
	// u. It is called once the work has started, whatever its outcome, with a
	// context that outlives the request.
	Debit(ctx context.Context, u Usage) error
	// Release gives the held amount back, unless the charge is a ChargeStarter
	// whose Started succeeded: then the work is owed and Release debits it as
	// lost. It never blocks on the network for long and may be deferred on every
	// path.
	Release()
}

// ChargeStarter is implemented by charges whose ledger can settle them after a
// crash: once Started has returned nil, the act is debited exactly once under
// u.RunID even if this process dies before Debit.
type ChargeStarter interface {
	// Started records that the work began. u carries at least RunID, Org and Session.
	Started(ctx context.Context, u Usage) error
}

// Usage describes one finished (or started) act for the usage record.
type Usage struct {
	// RunID is the idempotency key: a run is debited at most once.
	RunID string
	// Org, User, Project, Session and RequestID say whose act it was.
	Org, User, Project, Session, RequestID string
	// Act is what was consumed.
	Act Act
	// Cents is the price of the act.
	Cents int64
	// Wall is elapsed time, CPU is processor time of the program.
	Wall, CPU time.Duration
	// Fuel is deterministic work units of the embedded backend; 0 elsewhere.
	Fuel uint64
	// PeakMemory is in bytes.
	PeakMemory int64
	// BytesIn and BytesOut count input files and program output plus changed files.
	BytesIn, BytesOut int64
	// Outcome is the stop reason of the run (backend.StopReason) or "" while running.
	Outcome string
	// ExitCode is the program's exit status where Outcome is "exit".
	ExitCode int
}

// Sentinels of admission and billing. Wrap them to add detail.
var (
	// ErrInsufficient: the wallet cannot pay (HTTP 402).
	ErrInsufficient = errors.New("insufficient balance")
	// ErrCap: a spending cap is reached (HTTP 402).
	ErrCap = errors.New("spending cap reached")
	// ErrUnavailable: standing or balance cannot be established now (HTTP 503).
	ErrUnavailable = errors.New("billing unavailable")
)

// HTTPError is a refusal with the status and code that a caller may see.
type HTTPError struct {
	// Status is the HTTP status, 4xx or 5xx.
	Status int
	// Code is a stable machine-readable word such as "unauthorized".
	Code string
	// Message is one sentence for the caller, free of secrets.
	Message string
	// RetryAfter is when to try again; zero says nothing.
	RetryAfter time.Duration
	// Challenge is the value of WWW-Authenticate beside a 401; empty sends none.
	Challenge string
	// Cause is logged and never sent.
	Cause error
}

func (e *HTTPError) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *HTTPError) Unwrap() error { return e.Cause }

// Free is Billing for deployments without prices: every reservation succeeds
// and costs nothing. It is the only way to run a Metered entry without a ledger.
var Free Billing = freeBilling{}

type freeBilling struct{}

func (freeBilling) Reserve(context.Context, Payer, Act, int64) (Charge, error) {
	return freeCharge{}, nil
}

type freeCharge struct{}

func (freeCharge) Debit(context.Context, Usage) error { return nil }
func (freeCharge) Release()                           {}

// Price says how an entry is charged.
type Price int

const (
	// Unpriced is the zero value and is refused: an entry must say what it costs.
	Unpriced Price = iota
	// Metered entries reserve and debit per act; they need Platform.Billing.
	Metered
	// NoCharge entries consume nothing that is billed.
	NoCharge
)
