package envd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"strconv"

	"github.com/caisson-run/caisson/sdk/backend"
)

// placeScript moves an upload to its place, at once, and describes it.
const placeScript = functions + `f=$1 t=$2 m=$3 x=$4
if [ -n "$x" ]; then
	parents "$t" || { rm -f "$f"; fail place; }
	chmod "$m" "$f"
	if [ -e "$t" ] || [ -L "$t" ] || ! ln "$f" "$t"; then rm -f "$f"; fail exists; fi
	rm -f "$f"
else
	put "$f" "$t" "$m" || { rm -f "$f"; fail place; }
fi
scan "$t" 0 0
`

// WriteFile implements backend.Backend. Content goes to a place of its own first, so
// that nobody sees half of it.
func (c *Client) WriteFile(ctx context.Context, ref backend.Ref, p string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	if err := c.invalid(op, p); err != nil {
		return backend.Entry{}, err
	}
	limit := cmp.Or(opts.MaxBytes, c.opts.MaxFileBytes)
	sum := sha256.New()
	temporary := path.Join(stateDir, "up-"+newNonce())
	size, err := c.upload(ctx, op, ref.ID, temporary, io.TeeReader(&limited{r: r, left: limit}, sum))
	if err != nil {
		if errors.Is(err, errTooLong) {
			err = c.tooLong(op, limit)
		}
		return backend.Entry{}, err
	}
	exclusive := ""
	if opts.Exclusive {
		exclusive = "x"
	}
	mode := cmp.Or(opts.Mode&0o777, 0o644)
	out, err := c.script(ctx, call{op: op, id: ref.ID}, withPrune(placeScript, nil), temporary, p, strconv.FormatUint(uint64(mode), 8), exclusive)
	if err != nil {
		c.discard(ctx, op, ref.ID, temporary)
		return backend.Entry{}, err
	}
	t, err := out.parse(p)
	if err != nil || t.root.entry.Type != backend.EntryFile {
		return backend.Entry{}, c.fail(op, backend.KindInternal, "the file was written and is no file: did something else write to it?")
	}
	e := t.root.entry
	e.Size, e.SHA256 = size, hex.EncodeToString(sum.Sum(nil))
	return e, nil
}

// errTooLong ends the reading of content beyond its limit.
var errTooLong = errors.New("the content is too long")

func (c *Client) tooLong(op string, limit int64) error {
	e := c.fail(op, backend.KindInvalidRequest, "the content is longer than %d bytes", limit)
	e.Subject = backend.SubjectFile
	return e
}

// limited fails beyond so many bytes.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// script runs one of ours to its end and returns the scan that it prints.
func (c *Client) script(ctx context.Context, q call, text string, args ...string) (*section, error) {
	nonce := newNonce()
	var out *section
	err := c.do(ctx, q, func(ctx context.Context, b *box) error {
		f, err := c.start(ctx, b, q.op, command("/usr/bin/setsid", append([]string{"/bin/sh", "-c", text, "caisson", nonce}, args...), nil))
		if err != nil {
			return err
		}
		defer f.close()
		k := newKiller(ctx, f, c.opts.Timeout, drainTime, f.killAll)
		out, err = c.collect(f, q.op, nonce)
		k.end()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case k.why() == backend.StopTimeout:
			return c.fail(q.op, backend.KindTimeout, "the sandbox did not finish within %v", c.opts.Timeout)
		case err != nil && f.ctx.Err() == nil:
			_ = f.kill(0, f.pid) // it may go on
		}
		return err
	})
	return out, err
}

// collect reads a script's output to its end.
func (c *Client) collect(f *follower, op, nonce string) (*section, error) {
	out := new(section)
	stdout := newMarks(nonce, out.listing.write, func(verb, rest string) error {
		if verb == "F" {
			return c.failure(op, rest)
		}
		return out.listing.mark(verb, rest)
	})
	stderr := newMarks(nonce, out.digests.write, out.digests.mark)
	for {
		e, err := f.next()
		if err != nil {
			return nil, err
		}
		if err := feed(e, stdout, stderr); err != nil {
			return nil, err
		}
		if e.GetEnd() != nil {
			break
		}
	}
	if out.listing.over || out.digests.over {
		return nil, c.fail(op, backend.KindCapacity, "the tree has too many files to list")
	}
	if !out.complete() {
		return nil, c.fail(op, backend.KindInternal, "a script in the sandbox failed: are a shell, find and sha256sum in the template?")
	}
	return out, nil
}
