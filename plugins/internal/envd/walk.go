package envd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// walkScript scans a tree.
const walkScript = functions + `r=$1 d=$2 s=$3
case $r in /mnt/data) mkdir -p "$r";; esac
linkless "$r" || fail link
[ -e "$r" ] || fail absent
[ -d "$r" ] || fail notdir
scan "$r" "$d" "$s"
`

const (
	// maxWalk is how many entries Walk returns where it is not told.
	maxWalk = 100_000
	// maxDepth is how deep a tree is looked at.
	maxDepth = 128
)

// Walk implements backend.Backend.
func (c *Client) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	const op = "Walk"
	root := cmp.Or(req.Root, backend.DataDir)
	if err := c.invalid(op, root); err != nil {
		return backend.WalkResult{}, err
	}
	depth := min(cmp.Or(req.MaxDepth, maxDepth), maxDepth)
	limit := int64(0)
	if req.Digests {
		limit = cmp.Or(req.MaxDigestBytes, changes.DefaultMaxFileBytes) + 1
	}
	out, err := c.script(ctx, call{op: op, id: req.ID, again: true}, withPrune(walkScript, req.Exclude),
		root, strconv.Itoa(depth+1), strconv.FormatInt(limit, 10))
	if err != nil {
		return backend.WalkResult{}, err
	}
	t, err := out.parse(root)
	if err != nil {
		return backend.WalkResult{}, c.fail(op, backend.KindInternal, "%w", err)
	}
	return t.walk(root, req, depth), nil
}

// walk applies the limits of a request.
func (t *tree) walk(root string, req backend.WalkRequest, depth int) backend.WalkResult {
	slices.SortFunc(t.found, func(a, b found) int { return less(a.entry.Path, b.entry.Path) })
	res := backend.WalkResult{Entries: []backend.Entry{}}
	most := cmp.Or(req.MaxEntries, maxWalk)
	prefix := strings.TrimSuffix(root, "/")
	for _, f := range t.found {
		switch p := f.entry.Path; {
		case excluded(req.Exclude, root, p):
			continue
		case strings.Count(p[len(prefix):], "/") > depth, len(res.Entries) == most:
			res.Truncated = true
			continue
		}
		res.Entries = append(res.Entries, f.entry)
	}
	return res
}
