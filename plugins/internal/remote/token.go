package remote

import (
	"context"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
)

// maxToken is the longest token that is believed, in bytes.
const maxToken = 8 << 10

// ConnectToken implements backend.TokenConnector: the host remembers what the provider
// told once, also where the records of this plugin are gone.
func (b *Backend) ConnectToken(ctx context.Context, ref backend.Ref, token string) (backend.Sandbox, error) {
	c, err := b.config("Connect", ref.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if !c.traits.TokenOnce {
		return backend.Sandbox{}, b.fail("Connect", backend.KindUnsupported, "the provider tells tokens whenever it is asked: none is taken back")
	}
	return b.connect(ctx, ref, token)
}

// handBack takes back a token that was told once, of a running sandbox that is known to
// be this config's. One that is not known here is not believed before the daemon has
// answered to it; proven says that it has. A wrong one does not take the place of what is
// known.
func (c *config) handBack(ctx context.Context, op, id, token string) (proven bool, err error) {
	if token == "" {
		return false, nil
	}
	known, _ := c.data.Endpoint(id)
	if token != known.TrafficToken {
		ready, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		err := c.data.Prove(ready, id, envd.Endpoint{TrafficToken: token})
		if known.TrafficToken != "" && backend.KindOf(err) == backend.KindAuthentication {
			c.b.p.Log.Warn("a token that was handed back does not open the sandbox: the one that is known here stays", "sandbox", id)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		proven = true
	}
	return proven, c.keepToken(op, id, token)
}

// keepToken puts a token that is right into the record of the sandbox.
func (c *config) keepToken(op, id, token string) error {
	rec, ok := c.records.find(id)
	if rec.TrafficToken == token {
		return nil
	}
	if !ok {
		c.b.p.Log.Warn("what was recorded of a sandbox is gone: its token is taken back, the environment it was made with is not known any more", "sandbox", id)
		k, _ := c.recall(id)
		rec = record{Metadata: stamp(c.id, "", k.metadata, k.policy), Created: c.b.p.Now()}
	}
	rec.TrafficToken = token
	if err := c.records.keep(id, rec); err != nil {
		return c.b.fail(op, backend.KindInternal, "%w", err)
	}
	return nil
}

// headerValue reports whether a token can be sent: it becomes a header of every request.
func headerValue(token string) bool {
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return len(token) <= maxToken
}
