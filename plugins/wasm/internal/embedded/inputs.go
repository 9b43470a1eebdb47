package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/caisson-run/caisson/sdk/backend"
)

// input places one input. One that is optional and cannot be had, or has no place
// among the files that are there, is named in the result instead: nothing is wrong
// with the run.
func (r *run) input(ctx context.Context, i int, in backend.Input) error {
	rel, err := relative("Run", in.Path)
	if err != nil {
		return err
	}
	content, err := r.content(ctx, i, in)
	src := &source{r: content, err: err}
	var e backend.Entry
	if err == nil {
		e, err = place(ctx, r.sb, rel, backend.WriteOptions{}, src)
		src.close()
	}
	switch {
	case err == nil:
		r.result.Usage.BytesIn += e.Size
		return nil
	case ctx.Err() != nil, src.err == nil && (!in.Optional || !inTheWay(fileError("Run", in.Path, err))):
		return fileError("Run", in.Path, err)
	case in.Optional:
		r.result.MissingInputs = append(r.result.MissingInputs, in.Path)
		return nil
	default:
		// Said of the source, this must not read as said of the sandbox.
		e := backend.Errorf(backend.KindOf(src.err), "Run", "input %s: %v", in.Path, src.err)
		e.Provider, e.Subject, e.Plane = Name, backend.SubjectFile, backend.PlaneData
		return e
	}
}

// inTheWay reports whether a path cannot be a file because of what is there, as
// opposed to storage that is full or broken.
func inTheWay(err error) bool {
	switch backend.KindOf(err) {
	case backend.KindInvalidRequest, backend.KindNotFound, backend.KindConflict:
		return true
	}
	return false
}

// content opens what an input is made of.
func (r *run) content(ctx context.Context, i int, in backend.Input) (io.Reader, error) {
	switch {
	case in.Chunked:
		return r.io.Input(i)
	case in.CopyFrom != nil:
		src := in.CopyFrom
		f, _, err := r.b.ReadFile(ctx, backend.Ref{Config: r.spec.Config, ID: src.ID}, src.Path)
		if err != nil {
			return nil, err
		}
		return &pinned{ReadCloser: f, want: src.SHA256, path: src.Path, hash: sha256.New()}, nil
	default:
		return bytes.NewReader(in.Inline), nil
	}
}

// source remembers its reader's failure, which is not the destination's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *source) close() {
	if c, ok := s.r.(io.Closer); ok {
		c.Close()
	}
}

// pinned reads to the end only content with the right digest. Other content is
// as good as absent.
type pinned struct {
	io.ReadCloser
	want string
	path string
	hash hash.Hash
}

func (p *pinned) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.hash.Write(b[:n])
	if errors.Is(err, io.EOF) && p.want != "" && hex.EncodeToString(p.hash.Sum(nil)) != p.want {
		e := backend.Errorf(backend.KindNotFound, "Run", "%s: the file has other content by now", p.path)
		e.Subject, e.Plane = backend.SubjectFile, backend.PlaneData
		return n, e
	}
	return n, err
}
