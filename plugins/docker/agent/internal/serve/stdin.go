//go:build linux

package serve

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

// stdinReader is a program's stdin as it comes.
type stdinReader struct {
	ctx   context.Context
	st    *agentwire.Stream
	rest  []byte
	ended atomic.Bool
}

func (r *stdinReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.ended.Load() {
			return 0, io.EOF
		}
		it, err := r.st.Recv(r.ctx)
		if err != nil {
			return 0, err
		}
		if it.Channel != agentwire.ChanContent || it.Message {
			r.ended.Store(true)
			continue
		}
		r.rest = it.Data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func hasNUL(s string) bool        { return strings.IndexByte(s, 0) >= 0 }
func hasEqual(s string) bool      { return strings.IndexByte(s, '=') >= 0 }
func hasSlashOrNUL(s string) bool { return strings.ContainsAny(s, "/\x00") }
