package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/go-hclog"
)

// When keys are fetched and for how long they count.
const (
	// refreshAfter is the age at which keys are fetched anew, behind requests
	// that go on with the old ones.
	refreshAfter = 5 * time.Minute
	// staleAfter is how long keys count while they cannot be fetched anew: an
	// outage of the issuer should not be ours, but a key it withdraws must end.
	staleAfter = time.Hour
	// refetchEvery is the least time between fetches for keys nobody knows, so
	// that invented key ids cost the issuer nothing.
	refetchEvery = 10 * time.Second
	// retryEvery is the same after a failed fetch.
	retryEvery = 2 * time.Second
	// fetchTimeout bounds one fetch.
	fetchTimeout = 5 * time.Second
)

// keySet caches the published keys of one issuer.
//
// The key sets of OpenID Connect libraries fetch for each unknown key id, read
// answers of any size and keep keys for ever, and tell a caller with a bad
// token and an issuer that is down apart by words only; hence this one.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time
	log    hclog.Logger

	ctx  context.Context // of fetches, ended by close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu        sync.Mutex
	keys      []jose.JSONWebKey
	fetched   time.Time // when keys were; zero: never
	attempted time.Time // when the last fetch began
	err       error     // of the last fetch
	inflight  chan struct{}
	closed    bool
}

func newKeySet(rawURL string, transport http.RoundTripper, now func() time.Time, log hclog.Logger) (*keySet, error) {
	if err := checkJWKSURL(rawURL); err != nil {
		return nil, err
	}
	if transport == nil {
		// One small request every few minutes: no connection is worth keeping.
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	s := &keySet{
		url: rawURL, now: now, log: log,
		client: &http.Client{
			Transport: transport,
			Timeout:   fetchTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("redirects are not followed; configure the final address")
			},
		},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func checkJWKSURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("is empty")
	case err != nil:
		return errors.New("is malformed") // url's error quotes it, with any password
	case u.User != nil:
		return errors.New("must not hold credentials")
	case u.Fragment != "":
		return errors.New("must not have a fragment")
	case u.Hostname() == "":
		return errors.New("names no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("must begin with https://")
	}
	if u.Hostname() == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("must begin with https://; http is for loopback addresses")
}

// close ends a fetch under way and waits for it.
func (s *keySet) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// find returns the keys that may have signed a token with this key id and
// algorithm. An unknown id makes it fetch and wait, unless that was done only
// just now. Its errors are *host.HTTPError: 401 if the issuer has no such key,
// 503 if that cannot be known.
func (s *keySet) find(ctx context.Context, kid string, alg jose.SignatureAlgorithm) ([]jose.JSONWebKey, error) {
	keys, wait := s.look(kid, alg)
	if len(keys) == 0 && wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, unverifiable(retryEvery, ctx.Err())
		}
		keys, _ = s.look(kid, alg)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	if err := s.doubt(); err != nil {
		return nil, unverifiable(retryEvery, err)
	}
	return nil, unauthorized("the bearer token is not valid", errors.New("the issuer has published no key for it"))
}

// ready returns nil once keys are at hand, fetching if need be.
func (s *keySet) ready(ctx context.Context) error {
	s.mu.Lock()
	var wait <-chan struct{}
	if s.age() > refreshAfter {
		wait = s.fetchSoon()
	}
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.age() > staleAfter {
		return fmt.Errorf("the issuer's keys are not available: %w", s.err)
	}
	return nil
}

// look returns matching keys that still count and, if none match or the keys
// are old, the fetch that is under way.
func (s *keySet) look(kid string, alg jose.SignatureAlgorithm) (keys []jose.JSONWebKey, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.age() <= staleAfter {
		keys = match(s.keys, kid, alg)
	}
	if len(keys) == 0 || s.age() > refreshAfter {
		wait = s.fetchSoon()
	}
	return keys, wait
}

// doubt returns why the absence of a key proves nothing; nil if it does.
func (s *keySet) doubt() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("admission is closed")
	case s.err != nil:
		return s.err
	case s.age() > staleAfter:
		return errors.New("the issuer's keys are out of date")
	}
	return nil
}

// age is that of the keys, or more than any bound if there are none. The
// caller holds mu.
func (s *keySet) age() time.Duration {
	if s.fetched.IsZero() {
		return 1<<63 - 1
	}
	return s.now().Sub(s.fetched)
}

// fetchSoon returns the fetch under way, starts one if it is time for it, or
// returns nil. The caller holds mu.
func (s *keySet) fetchSoon() <-chan struct{} {
	pause := refetchEvery
	if s.err != nil {
		pause = retryEvery
	}
	now := s.now()
	switch {
	case s.inflight != nil:
		return s.inflight
	case s.closed, !s.attempted.IsZero() && now.Sub(s.attempted) < pause:
		return nil
	}
	done := make(chan struct{})
	s.inflight, s.attempted = done, now
	s.wg.Go(func() {
		keys, err := s.fetch()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inflight = nil
		close(done)
		if s.err = err; err != nil {
			s.log.Warn("keys of the token issuer not fetched", "url", s.url, "error", err)
			return
		}
		s.keys, s.fetched = keys, now
	})
	return done
}

func (s *keySet) fetch() ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	req.Header.Set("User-Agent", "caisson")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answered with status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return nil, fmt.Errorf("read the issuer's keys: %w", err)
	}
	return parseKeySet(body)
}
