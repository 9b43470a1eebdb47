package plain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Limits of a walk that asks for none.
const (
	maxEntries     = 100_000
	maxDepth       = 64
	maxDigestBytes = 1 << 30
	// maxListing bounds what a listing may weigh: names are a program's.
	maxListing = 64 << 20
)

// Every record of find ends with NUL, the only byte that no name holds.
const format = `'%y %s %T@ %m %P\0'`

// Stat describes one path.
func (b *Box) Stat(ctx context.Context, op, p string) (backend.Entry, error) {
	if err := checkPath(op, p); err != nil {
		return backend.Entry{}, err
	}
	var out listing
	err := b.script(ctx, op, p, `guard "$1"; present "$1" || exit 72; exec find "$1" -maxdepth 0 -printf `+format, nil, out.take, p)
	if err != nil {
		return backend.Entry{}, err
	}
	entries := out.entries(path.Dir(p))
	if len(entries) != 1 {
		return backend.Entry{}, engine.FileError(backend.KindNotFound, op, p, "no such file")
	}
	entries[0].Path = p
	return entries[0], nil
}

// ListDir lists one directory in lexical order.
func (b *Box) ListDir(ctx context.Context, p string) ([]backend.Entry, error) {
	const op = "ListDir"
	if err := checkPath(op, p); err != nil {
		return nil, err
	}
	var out listing
	err := b.script(ctx, op, p, enter+`exec find "$1" -mindepth 1 -maxdepth 1 -printf `+format, nil, out.take, p)
	if err != nil {
		return nil, err
	}
	entries := out.entries(p)
	slices.SortFunc(entries, func(a, b backend.Entry) int { return cmp.Compare(a.Path, b.Path) })
	return entries, nil
}

// enter refuses what is no directory.
const enter = `guard "$1/."; present "$1" || exit 72; [ -d "$1" ] || exit 74
`

// Walk lists a tree.
func (b *Box) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	const op = "Walk"
	root := cmp.Or(req.Root, backend.DataDir)
	if err := checkPath(op, root); err != nil {
		return backend.WalkResult{}, err
	}
	depth := cmp.Or(req.MaxDepth, maxDepth)
	script, args := enter+`find "$1" -mindepth 1 -maxdepth "$2" -printf `+format, []string{root, strconv.Itoa(depth + 1)}
	if req.Digests {
		// A file that cannot be read has no digest.
		script += `
printf '= 0 0 0 \0'
cd "$1" && find . -type f -size -"$3"c -print0 2>/dev/null | xargs -0 -r sha256sum -z -- 2>/dev/null
exit 0`
		args = append(args, strconv.FormatInt(cmp.Or(req.MaxDigestBytes, maxDigestBytes)+1, 10))
	}
	var out listing
	if err := b.script(ctx, op, root, script, nil, out.take, args...); err != nil {
		return backend.WalkResult{}, err
	}
	entries := out.entries(root)
	res := backend.WalkResult{Truncated: out.cut}
	var kept []backend.Entry
	for _, e := range entries {
		rel := strings.TrimPrefix(e.Path[len(root):], "/")
		switch parts := strings.Split(rel, "/"); {
		case slices.ContainsFunc(parts, func(p string) bool { return backend.Excluded(req.Exclude, p) }):
		case len(parts) > depth:
			res.Truncated = true
		default:
			kept = append(kept, e)
		}
	}
	// A directory's content comes right after it.
	slices.SortFunc(kept, func(a, b backend.Entry) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
	if n := cmp.Or(req.MaxEntries, maxEntries); len(kept) > n {
		kept, res.Truncated = kept[:n], true
	}
	res.Entries = kept
	return res, nil
}

// listing collects what find prints.
type listing struct {
	b   bytes.Buffer
	cut bool
}

var errLong = errors.New("the listing is too long")

func (l *listing) take(p []byte) error {
	if l.b.Len()+len(p) > maxListing {
		l.cut = true
		return errLong
	}
	l.b.Write(p)
	return nil
}

// entries parses the records below root; what is none is left out, and so are names
// that are not UTF-8, which nobody could ask for.
func (l *listing) entries(root string) []backend.Entry {
	var out []backend.Entry
	digests := false
	index := make(map[string]int)
	for record := range bytes.SplitSeq(l.b.Bytes(), []byte{0}) {
		text := string(record)
		if digests {
			sum, name, ok := strings.Cut(text, "  ./")
			if i, known := index[name]; ok && known && len(sum) == 64 {
				out[i].SHA256 = sum
			}
			continue
		}
		if text == "= 0 0 0 " {
			digests = true
			continue
		}
		e, name, ok := parseRecord(text)
		if !ok || !utf8.ValidString(name) {
			continue
		}
		e.Path = path.Join(root, name)
		index[name] = len(out)
		out = append(out, e)
	}
	return out
}

// parseRecord reads "TYPE SIZE SECONDS MODE NAME".
func parseRecord(text string) (e backend.Entry, name string, ok bool) {
	f := strings.SplitN(text, " ", 5)
	if len(f) != 5 {
		return e, "", false
	}
	size, err1 := strconv.ParseInt(f[1], 10, 64)
	when, err2 := parseTime(f[2])
	mode, err3 := strconv.ParseUint(f[3], 8, 32)
	if errors.Join(err1, err2, err3) != nil || size < 0 {
		return e, "", false
	}
	e = backend.Entry{Type: backend.EntryOther, Modified: when, Mode: uint32(mode & 0o777)}
	switch f[0] {
	case "f":
		e.Type, e.Size = backend.EntryFile, size
	case "d":
		e.Type = backend.EntryDir
	}
	return e, f[4], true
}

// parseTime reads seconds with a fraction.
func parseTime(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanos).UTC(), nil
}
