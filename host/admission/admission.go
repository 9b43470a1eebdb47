package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/host"
)

// DefaultBrandOrg is the deployment's own organisation where none is configured.
const DefaultBrandOrg = "default"

// Config says which credentials are good and what they mean.
type Config struct {
	// Keys are the service keys. Two keys of one ID count as one, so that a
	// secret can be rotated while both are in use.
	Keys []Key
	// Bearer describes the tokens that are accepted. Without it a token admits
	// nobody, and beside a good key it is passed over: there is one tenant then,
	// so it could not lead into another's, and some clients attach a token of
	// their own issuer to every call.
	Bearer *Bearer
	// BrandOrg is the organisation of requests admitted by a service key alone;
	// empty means DefaultBrandOrg.
	BrandOrg string
	// ServiceKeyWallet pays for requests admitted by a service key alone; empty
	// means that nobody does.
	ServiceKeyWallet host.Payer
	// Wallets is asked for the standing of whoever pays. Without it a priced
	// deployment has no standing to give.
	Wallets Wallets
	// Priced reports, at each call, whether the deployment charges for act. Nil
	// means that it does.
	Priced func(act host.Act) bool
	// Log receives what happens to the issuer's keys; nil discards it.
	Log hclog.Logger
}

// Wallets knows who can pay; host/ledger is one.
type Wallets interface {
	// Standing returns nil, or an error that wraps host.ErrInsufficient,
	// host.ErrCap or host.ErrUnavailable.
	Standing(ctx context.Context, payer host.Payer) error
}

// Admission admits requests by Config. It is safe for concurrent use.
type Admission struct {
	keys             keyring
	bearer           *verifier // nil: no token is accepted
	brandOrg         string
	serviceKeyWallet host.Payer
	wallets          Wallets
	priced           func(host.Act) bool
}

var _ host.Admission = (*Admission)(nil)

// New checks cfg and returns its Admission. It connects to nothing: the
// issuer's keys are fetched when the first token needs them. Errors name the
// field. The caller must Close what New returns.
func New(cfg Config) (*Admission, error) {
	a := &Admission{
		brandOrg: cfg.BrandOrg, serviceKeyWallet: cfg.ServiceKeyWallet,
		wallets: cfg.Wallets, priced: cfg.Priced,
	}
	if a.brandOrg == "" {
		a.brandOrg = DefaultBrandOrg
	}
	if a.priced == nil {
		a.priced = func(host.Act) bool { return true }
	}
	if err := checkOrg(a.brandOrg); err != nil {
		return nil, fmt.Errorf("admission: brand org %q: %w", a.brandOrg, err)
	}
	if a.serviceKeyWallet != "" {
		if err := checkOrg(string(a.serviceKeyWallet)); err != nil {
			return nil, fmt.Errorf("admission: service key wallet %q: %w", a.serviceKeyWallet, err)
		}
	}
	var err error
	if a.keys, err = newKeyring(cfg.Keys); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	if cfg.Bearer != nil {
		log := cfg.Log
		if log == nil {
			log = hclog.NewNullLogger()
		}
		if a.bearer, err = newVerifier(*cfg.Bearer, log); err != nil {
			return nil, fmt.Errorf("admission: bearer: %w", err)
		}
	}
	return a, nil
}

// Close ends a fetch of the issuer's keys that may be under way and waits for
// it. Afterwards tokens are refused as unverifiable (503).
func (a *Admission) Close() error {
	if a.bearer != nil {
		a.bearer.keys.close()
	}
	return nil
}

// Ready reports whether requests can be admitted now: something is configured,
// and the issuer's keys, if any are needed, are at hand or can be fetched.
func (a *Admission) Ready(ctx context.Context) error {
	switch {
	case !a.configured():
		return errNotConfigured()
	case a.bearer == nil:
		return nil
	}
	if err := a.bearer.keys.ready(ctx); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// challenge is the value of WWW-Authenticate that belongs on a 401 (RFC 9110
// §11.6.1).
func (a *Admission) challenge() string {
	var schemes []string
	if a.bearer != nil {
		schemes = append(schemes, `Bearer realm="caisson"`)
	}
	if len(a.keys) > 0 {
		schemes = append(schemes, `Basic realm="caisson", charset="UTF-8"`)
	}
	return strings.Join(schemes, ", ")
}

func (a *Admission) configured() bool { return len(a.keys) > 0 || a.bearer != nil }

// Admit implements host.Admission as the package comment tables it.
func (a *Admission) Admit(r *http.Request) (host.Principal, error) {
	p, err := a.admit(r)
	var refused *host.HTTPError
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		refused.Challenge = a.challenge()
	}
	return p, err
}

func (a *Admission) admit(r *http.Request) (host.Principal, error) {
	if !a.configured() {
		return host.Principal{}, errNotConfigured()
	}
	given, err := readCredentials(r.Header)
	if err != nil {
		return host.Principal{}, err
	}
	if given.none() {
		return host.Principal{}, unauthorized("a service key or a bearer token is required", nil)
	}
	var v verified
	if v.keyID, err = a.keys.admit(given.keys); err != nil {
		return host.Principal{}, err
	}
	switch {
	case given.bearer == "":
	case a.bearer == nil && v.keyID == "":
		return host.Principal{}, unauthorized("bearer tokens are not accepted here; send the service key", nil)
	case a.bearer != nil:
		claims, err := a.bearer.verify(r.Context(), given.bearer)
		if err != nil {
			return host.Principal{}, err
		}
		v.token = &claims
	}
	return a.principal(v)
}

// principal turns verified facts into who the request acts for.
func (a *Admission) principal(v verified) (host.Principal, error) {
	org, via, err := tenant(v, a.brandOrg)
	if err != nil {
		return host.Principal{}, err
	}
	p := host.Principal{Org: org, Via: via, KeyID: v.keyID}
	if v.token != nil {
		p.User, p.Payer = v.token.user, v.token.payer
	} else {
		p.Payer = a.serviceKeyWallet
	}
	return p, nil
}

// Standing implements host.Admission. Whoever has no payer, and everyone where
// act has no price, has standing. Doubt is host.ErrUnavailable.
func (a *Admission) Standing(ctx context.Context, p host.Principal, act host.Act) error {
	if p.Payer == "" || !a.priced(act) {
		return nil
	}
	if a.wallets == nil {
		return fmt.Errorf("admission: standing for %s: no wallets are configured: %w", act, host.ErrUnavailable)
	}
	err := a.wallets.Standing(ctx, p.Payer)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, host.ErrInsufficient), errors.Is(err, host.ErrCap), errors.Is(err, host.ErrUnavailable):
		return fmt.Errorf("admission: standing for %s: %w", act, err)
	default:
		return fmt.Errorf("admission: standing for %s: %w: %w", act, host.ErrUnavailable, err)
	}
}
