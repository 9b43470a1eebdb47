package control

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"

	"github.com/caisson-run/caisson/sdk/backend"
)

// maxPages ends a listing whose server never stops.
const maxPages = 200

// nextHeader holds the token of the next page; it is absent on the last one.
const nextHeader = "X-Next-Token"

// Pages makes a listing call until there are no more pages and returns all elements.
// A server that repeats a token, which would go on for ever, ends the listing as an
// error: half a listing must not look like a whole one.
func Pages[T any](ctx context.Context, c *Client, call Call) ([]T, error) {
	var all []T
	query := maps.Clone(call.Query)
	if query == nil {
		query = url.Values{}
	}
	seen := map[string]bool{}
	for range maxPages {
		var page []T
		var raw json.RawMessage
		call.Query, call.Out = query, &raw
		reply, err := c.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, c.fail(call, backend.KindInternal, reply.Status, "the listing is not the JSON that was expected", nil)
		}
		all = append(all, page...)
		token := reply.Header.Get(nextHeader)
		if token == "" {
			return all, nil
		}
		if seen[token] {
			return nil, c.fail(call, backend.KindInternal, reply.Status, "the listing repeats a page", nil)
		}
		seen[token] = true
		query = maps.Clone(query)
		query.Set("nextToken", token)
	}
	return nil, c.fail(call, backend.KindInternal, 0, "the listing has too many pages", nil)
}
