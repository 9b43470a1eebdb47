package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/host"
)

const (
	defaultOrgClaim = "org_id"
	defaultLeeway   = time.Minute
	maxLeeway       = 5 * time.Minute
)

// algorithms are the signatures that are accepted: public-key ones only, so
// that a published key can never serve as a secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// Bearer describes acceptable tokens: JWTs (RFC 7519) signed with RS256, ES256
// or EdDSA by a key of one issuer's published set, with an expiry.
type Bearer struct {
	// Issuer must equal the claim "iss". Required.
	Issuer string
	// Audiences: one of them must be in the claim "aud". Required.
	Audiences []string
	// JWKSURL is where the issuer publishes its keys (RFC 7517): https, or http
	// on a loopback address. Redirects are not followed. Required.
	JWKSURL string
	// OrgClaim is the top-level string claim that names the organisation; empty
	// means "org_id".
	OrgClaim string
	// PayerClaim is the top-level string claim that names the wallet; a token
	// without it is refused. Empty means that the organisation pays.
	PayerClaim string
	// Leeway is by how much clocks may differ: 0 means one minute, at most five.
	Leeway time.Duration
	// Transport fetches the keys, for issuers behind a private certificate
	// authority; nil means one that trusts the system's and follows the proxy
	// variables of the environment.
	Transport http.RoundTripper

	now func() time.Time
}

// claims are what a verified token says.
type claims struct {
	org, user string
	payer     host.Payer
}

type verifier struct {
	cfg    Bearer
	expect jwt.Expected
	keys   *keySet
}

func newVerifier(cfg Bearer, log hclog.Logger) (*verifier, error) {
	switch {
	case cfg.Issuer == "":
		return nil, errors.New("issuer is empty")
	case len(cfg.Audiences) == 0 || slices.Contains(cfg.Audiences, ""):
		return nil, errors.New("audiences must hold at least one audience and no empty one")
	case cfg.Leeway < 0 || cfg.Leeway > maxLeeway:
		return nil, fmt.Errorf("leeway %v is not from 0 to %v", cfg.Leeway, maxLeeway)
	}
	if cfg.OrgClaim == "" {
		cfg.OrgClaim = defaultOrgClaim
	}
	if cfg.Leeway == 0 {
		cfg.Leeway = defaultLeeway
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	keys, err := newKeySet(cfg.JWKSURL, cfg.Transport, cfg.now, log)
	if err != nil {
		return nil, fmt.Errorf("jwks url: %w", err)
	}
	return &verifier{
		cfg: cfg, keys: keys,
		expect: jwt.Expected{Issuer: cfg.Issuer, AnyAudience: slices.Clone(cfg.Audiences)},
	}, nil
}

// verify returns the claims of a good token. Refusals are *host.HTTPError: 401
// for a bad token, 403 for a good one that names no tenant, 503 while the
// issuer's keys are not known. What is wrong is said only once the signature
// is known to be the issuer's.
func (v *verifier) verify(ctx context.Context, raw string) (claims, error) {
	token, err := jwt.ParseSigned(raw, algorithms)
	if err != nil {
		return claims{}, unauthorized("the bearer token is not valid", errors.New("not a compact JWS of an accepted algorithm"))
	}
	header := token.Headers[0]
	keys, err := v.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return claims{}, err
	}
	var registered jwt.Claims
	var all map[string]any
	verified := false
	for _, key := range keys {
		if err = token.Claims(key.Key, &registered, &all); err == nil {
			verified = true
			break
		}
	}
	if !verified {
		return claims{}, unauthorized("the bearer token is not valid", err)
	}
	if registered.Expiry == nil {
		return claims{}, unauthorized("the bearer token has no expiry", nil)
	}
	expect := v.expect.WithTime(v.cfg.now())
	if err := registered.ValidateWithLeeway(expect, v.cfg.Leeway); err != nil {
		return claims{}, unauthorized(complaint(err), err)
	}
	return v.read(registered.Subject, all)
}

func complaint(err error) string {
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return "the bearer token has expired"
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return "the bearer token is not valid yet"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "the bearer token is for another audience"
	default:
		return "the bearer token is not valid"
	}
}

// read takes tenant, user and payer from the claims of a verified token.
func (v *verifier) read(subject string, all map[string]any) (claims, error) {
	c := claims{user: subject}
	var err error
	if c.org, err = orgClaim(all, v.cfg.OrgClaim); err != nil {
		return claims{}, forbidden("the token names no organisation that can be served", err)
	}
	if err := checkUser(subject); err != nil {
		return claims{}, forbidden("the token names no user that can be served", fmt.Errorf("claim \"sub\": %w", err))
	}
	c.payer = host.Payer(c.org)
	if v.cfg.PayerClaim != "" {
		payer, err := orgClaim(all, v.cfg.PayerClaim)
		if err != nil {
			return claims{}, forbidden("the token names no payer", err)
		}
		c.payer = host.Payer(payer)
	}
	return c, nil
}

func orgClaim(all map[string]any, name string) (string, error) {
	value, ok := all[name].(string)
	if !ok {
		return "", fmt.Errorf("claim %q is missing or no string", name)
	}
	if err := checkOrg(value); err != nil {
		return "", fmt.Errorf("claim %q: %w", name, err)
	}
	return value, nil
}
