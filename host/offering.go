package host

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

const (
	// offerKept is how long an answer of Probe is taken for true, and offerRetry how
	// long a config is left alone that could make no sandbox: an operator who
	// mends it need not start anything again.
	offerKept  = time.Minute
	offerRetry = 5 * time.Second
	// offerAhead is more than the time between two calls of renew.
	offerAhead = 15 * time.Second
	// offerTimeout bounds one Probe.
	offerTimeout = 10 * time.Second
)

// offering is what programs may be written in on one config, as its backend said
// last. What a plugin says of itself (backend.Info) stands in until it has
// answered for the config. It is safe for concurrent use.
type offering struct {
	backend  backend.Backend
	config   json.RawMessage
	now      func() time.Time
	presumed []backend.LanguageSupport

	mu    sync.Mutex
	known []backend.LanguageSupport
	until time.Time // when to ask again
	// asking is closed when whoever asks has done so; nil when nobody does.
	asking chan struct{}
}

// languages asks the backend when the last answer is old. Callers wait for the
// first answer only; it is never an error not to get one.
func (o *offering) languages(ctx context.Context) []backend.LanguageSupport {
	o.mu.Lock()
	first := o.until.IsZero()
	asking := o.asking
	if asking == nil && !o.now().Before(o.until) {
		o.asking = make(chan struct{})
		o.mu.Unlock()
		o.ask(ctx)
		return o.last()
	}
	o.mu.Unlock()
	if first && asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
		}
	}
	return o.last()
}

// renew asks again shortly before the last answer is old.
func (o *offering) renew(ctx context.Context) {
	o.mu.Lock()
	due := o.asking == nil && !o.until.IsZero() && !o.now().Add(offerAhead).Before(o.until)
	if due {
		o.asking = make(chan struct{})
	}
	o.mu.Unlock()
	if due {
		o.ask(ctx)
	}
}

func (o *offering) last() []backend.LanguageSupport {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		return o.presumed
	}
	return o.known
}

func (o *offering) ask(ctx context.Context) {
	probe, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	report, err := o.backend.Probe(probe, o.config)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil && len(report.Languages) > 0 {
		o.known = report.Languages
	}
	switch {
	case err == nil && report.OK:
		o.until = o.now().Add(offerKept)
	case ctx.Err() == nil: // a caller who left says nothing about the config
		o.until = o.now().Add(offerRetry)
	}
	close(o.asking)
	o.asking = nil
}
