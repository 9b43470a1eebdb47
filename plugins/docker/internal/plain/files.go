package plain

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// ReadFile opens a regular file.
func (b *Box) ReadFile(ctx context.Context, p string) (io.ReadCloser, backend.Entry, error) {
	const op = "ReadFile"
	if err := checkPath(op, p); err != nil {
		return nil, backend.Entry{}, err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := b.script(ctx, op, p, `guard "$1"
[ ! -L "$1" ] || exit 73
[ -e "$1" ] || exit 72
[ -f "$1" ] || exit 73
exec 3<"$1" || exit 78
stat -L -c '%s %Y %a' /proc/self/fd/3 || exit 78
exec cat <&3`, nil, func(chunk []byte) error {
			_, err := pw.Write(chunk)
			return err
		}, p)
		pw.CloseWithError(cmp.Or(err, io.EOF))
	}()
	r := bufio.NewReaderSize(pr, 64<<10)
	stop := func() error {
		cancel()
		_ = pr.Close()
		<-done
		return nil
	}
	head, err := r.ReadString('\n')
	if err == nil {
		var size, seconds int64
		var mode uint32
		if _, err = fmt.Sscanf(head, "%d %d %o\n", &size, &seconds, &mode); err == nil {
			when, _ := parseTime(strconv.FormatInt(seconds, 10))
			e := backend.Entry{Path: p, Type: backend.EntryFile, Size: size, Modified: when, Mode: mode & 0o777}
			return &content{r: r, left: size, stop: stop}, e, nil
		}
	}
	_ = stop()
	if errors.Is(err, io.EOF) {
		err = engine.FileError(backend.KindInternal, op, p, "the sandbox's tools printed nothing")
	}
	return nil, backend.Entry{}, engine.Fail(caller, op, backend.SubjectFile, err)
}

// content is exactly as long as was announced, or fails.
type content struct {
	r    io.Reader
	left int64
	stop func() error
}

func (c *content) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) && c.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *content) Close() error { return c.stop() }

// inMemory is how much content is not worth a file.
const inMemory = 1 << 20

// maxWrite bounds content when the caller does not.
const maxWrite = 1 << 30

// WriteFile replaces a regular file. The content is read to its end before the
// container hears of it, so that what is cut replaces nothing.
func (b *Box) WriteFile(ctx context.Context, p string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	if err := checkPath(op, p); err != nil {
		return backend.Entry{}, err
	}
	body, err := b.spool(ctx, r, cmp.Or(opts.MaxBytes, maxWrite))
	if err != nil {
		if errors.Is(err, errTooLarge) {
			return backend.Entry{}, engine.FileError(backend.KindInvalidRequest, op, p, "larger than allowed")
		}
		return backend.Entry{}, fmt.Errorf("write %s: %w", p, err)
	}
	defer body.close()
	mode := cmp.Or(opts.Mode&0o777, 0o644)
	last := `mv -fT -- "$t" "$1"`
	if opts.Exclusive {
		last = `{ ln -T -- "$t" "$1" || { present "$1" && exit 75; exit 78; }; } && rm -f -- "$t"`
	}
	var out bytes.Buffer
	err = b.script(ctx, op, p, `guard "$1"
d=${1%/*}
mkdir -p -- "${d:-/}" || { [ -d "$d" ] || exit 74; }
[ -L "$1" ] || [ ! -d "$1" ] || exit 73
t=$(mktemp "$d/.caisson.XXXXXXXX") || exit 78
trap 'rm -f -- "$t"' EXIT
cat >"$t" || exit 78
[ "$(wc -c <"$t")" -eq "$2" ] || exit 78
chmod "$3" "$t" || exit 78
when=$(stat -c %Y "$t") || exit 78
`+last+` || exit 78
printf %s "$when"`, body.r, func(b []byte) error { out.Write(b); return nil },
		p, strconv.FormatInt(body.size, 10), strconv.FormatUint(uint64(mode), 8))
	if err != nil {
		return backend.Entry{}, err
	}
	when, _ := parseTime(out.String())
	return backend.Entry{
		Path: p, Type: backend.EntryFile, Size: body.size, Modified: when, Mode: mode, SHA256: body.digest,
	}, nil
}

// body is content of known size.
type body struct {
	r      io.Reader
	size   int64
	digest string
	file   *os.File
}

func (b *body) close() {
	if b.file != nil {
		_ = b.file.Close()
	}
}

var errTooLarge = errors.New("larger than allowed")

// spool reads content to its end, into a file without a name when it is large.
func (b *Box) spool(ctx context.Context, r io.Reader, limit int64) (_ *body, err error) {
	sum := sha256.New()
	r = io.TeeReader(&bounded{ctx: ctx, r: r, left: limit}, sum)
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, inMemory)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	out := &body{r: &head, size: n}
	if err == nil {
		f, err := os.CreateTemp(b.Spool, "upload-")
		if err != nil {
			return nil, errors.New("no room to keep the content meanwhile")
		}
		out.file = f
		_ = os.Remove(f.Name())
		rest, err := io.Copy(f, r)
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			out.close()
			return nil, err
		}
		out.size += rest
		out.r = io.MultiReader(&head, f)
	}
	out.digest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// bounded fails beyond a limit, and with its context.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (l *bounded) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// MakeDir makes a directory and its parents. The two that every sandbox has are in
// directories of root's: no program can have removed them.
func (b *Box) MakeDir(ctx context.Context, p string) error {
	const op = "MakeDir"
	if err := checkPath(op, p); err != nil || p == backend.DataDir || p == backend.TmpDir {
		return err
	}
	return b.script(ctx, op, p, `guard "$1/."
if present "$1"; then [ -d "$1" ] || exit 75; exit 0; fi
mkdir -p -- "$1" || exit 78`, nil, nil, p)
}

// Remove deletes a path with everything below it. The data directory and scratch
// space are emptied.
func (b *Box) Remove(ctx context.Context, p string) error {
	const op = "Remove"
	if err := checkPath(op, p); err != nil {
		return err
	}
	if p == "/" || strings.Count(p, "/") == 1 && p != backend.TmpDir {
		return engine.FileError(backend.KindInvalidRequest, op, p, "is not to be removed")
	}
	if p == backend.TmpDir || p == backend.DataDir {
		return b.script(ctx, op, p, `chmod -R u+rwX "$1" 2>/dev/null; find "$1" -mindepth 1 -delete 2>/dev/null; exit 0`, nil, nil, p)
	}
	return b.script(ctx, op, p, `guard "$1"
rm -rf -- "$1" 2>/dev/null
present "$1" || exit 0
[ -L "$1" ] || chmod -R u+rwX "$1" 2>/dev/null
rm -rf -- "$1" || exit 78`, nil, nil, p)
}
