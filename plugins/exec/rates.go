package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/internal/options"
	"github.com/caisson-run/caisson/plugins/exec/internal/rate"
)

// RateClass groups the requests that share a rate.
type RateClass string

const (
	// RateRuns are runs, programs that call tools among them: the request that begins one
	// takes one of RateRounds and one of these.
	RateRuns RateClass = "runs"
	// RateRounds are all requests about programs that call tools.
	RateRounds RateClass = "rounds"
	// RateUploads are uploads, one for each request.
	RateUploads RateClass = "uploads"
	// RateDownloads are downloads.
	RateDownloads RateClass = "downloads"
	// RateReads are listings, metadata, deletions and everything else.
	RateReads RateClass = "reads"
)

// RateClasses are all of them.
func RateClasses() []RateClass {
	return []RateClass{RateRuns, RateRounds, RateUploads, RateDownloads, RateReads}
}

// Rate is how often a principal may send requests of a class: Burst at once, and then
// Requests in each Per. Zero members take the defaults.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// RateLimiter decides whether a principal may send one more request now. It is safe
// for concurrent use. Replicas that are to count together need one that does.
type RateLimiter interface {
	// Take counts one request of class by p and returns 0, or counts none and returns
	// after how long one would be let through. An error, when that cannot be decided,
	// is answered as 503.
	Take(ctx context.Context, p host.Principal, class RateClass) (after time.Duration, err error)
}

// DefaultRates are those of one user.
func DefaultRates() map[RateClass]Rate {
	return map[RateClass]Rate{
		RateRuns:      {120, time.Minute, 40},
		RateRounds:    {600, time.Minute, 120},
		RateUploads:   {60, time.Minute, 60},
		RateDownloads: {600, time.Minute, 200}, // a client fetches all files of a run at once
		RateReads:     {600, time.Minute, 200},
	}
}

// DefaultKeyRates are those of one service key, which a platform uses for all of its
// users: they stop a loop that has gone wild, and the queue does the rest.
func DefaultKeyRates() map[RateClass]Rate {
	m := make(map[RateClass]Rate)
	for _, c := range RateClasses() {
		m[c] = Rate{60_000, time.Minute, 2000}
	}
	return m
}

// rates counts in this process.
type rates struct{ users, keys map[RateClass]*rate.Table }

var _ RateLimiter = (*rates)(nil)

func newRates(o Options) (*rates, error) {
	r := &rates{users: make(map[RateClass]*rate.Table), keys: make(map[RateClass]*rate.Table)}
	var errs []error
	for _, set := range []struct {
		what            string
		given, defaults map[RateClass]Rate
		tables          map[RateClass]*rate.Table
	}{{"Rates", o.Rates, DefaultRates(), r.users}, {"KeyRates", o.KeyRates, DefaultKeyRates(), r.keys}} {
		for class := range set.given {
			if _, ok := set.defaults[class]; !ok {
				errs = append(errs, fmt.Errorf("exec: %s: there is no class %q", set.what, class))
			}
		}
		for class, l := range set.defaults {
			g := set.given[class]
			if g.Requests < 0 || g.Per < 0 || g.Burst < 0 {
				errs = append(errs, fmt.Errorf("exec: %s: a member of %s is negative", set.what, class))
				continue
			}
			options.Default(&g.Requests, l.Requests)
			options.Default(&g.Per, l.Per)
			options.Default(&g.Burst, l.Burst)
			set.tables[class] = rate.New(rate.Limit{Requests: g.Requests, Per: g.Per, Burst: g.Burst}, o.RatePrincipals, o.Now)
		}
	}
	return r, errors.Join(errs...)
}

// Take implements RateLimiter. A user counts for itself, under whichever credential; a
// service key without a user counts as one.
func (r *rates) Take(_ context.Context, p host.Principal, class RateClass) (time.Duration, error) {
	tables, key := r.users, p.Org+"\x00"+p.User
	if p.Via == host.ViaServiceKey {
		tables, key = r.keys, p.Org+"\x00"+p.KeyID
	}
	t := tables[class]
	if t == nil {
		return 0, fmt.Errorf("there is no class %q", class)
	}
	return t.Take(key), nil
}

// remembered is how many principals the table has that has the most.
func (r *rates) remembered() (n int) {
	for _, tables := range []map[RateClass]*rate.Table{r.users, r.keys} {
		for _, t := range tables {
			n = max(n, t.Len())
		}
	}
	return n
}

// classOf is the class of a route's requests.
func classOf(path string) RateClass {
	switch {
	case path == "/exec":
		return RateRuns
	case strings.HasPrefix(path, "/exec/"):
		return RateRounds
	case strings.HasPrefix(path, "/upload"):
		return RateUploads
	case strings.HasPrefix(path, "/download"):
		return RateDownloads
	default:
		return RateReads
	}
}

// take counts a request of p, or refuses it. Nothing was read or spent before.
func (i *Interpreter) take(ctx context.Context, p host.Principal, class RateClass) error {
	after, err := i.o.Limiter.Take(ctx, p, class)
	switch {
	case err != nil:
		return &host.HTTPError{
			Status: http.StatusServiceUnavailable, Code: "rate_unavailable", Message: "the rate of requests cannot be established now",
			RetryAfter: defaultRetry, Cause: fmt.Errorf("rate limit: %w", err),
		}
	case after > 0:
		i.telemetry.RateLimited(string(class))
		return rateLimited("too many requests; slow down", after, nil)
	}
	return nil
}
