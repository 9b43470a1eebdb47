package command

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestRetried(t *testing.T) {
	preparing := backend.Errorf(backend.KindCapacity, "Run", "interpreter is being prepared")
	preparing.RetryAfter = 15 * time.Second
	full := backend.Errorf(backend.KindCapacity, "Run", "full")
	other := errors.New("syntax")
	for name, c := range map[string]struct {
		errs  []error // one for each call; the last goes on for ever
		want  error
		after time.Duration
	}{
		"done at once":             {[]error{nil}, nil, 0},
		"done in the end":          {[]error{preparing, preparing, nil}, nil, 30 * time.Second},
		"other errors are not":     {[]error{preparing, other}, other, 15 * time.Second},
		"nor those without a time": {[]error{full}, full, 0},
		"patience ends":            {[]error{preparing}, preparing, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				var said bytes.Buffer
				err := retried(t.Context(), &said, func() error {
					n++
					return c.errs[min(n, len(c.errs))-1]
				})
				if !errors.Is(err, c.want) || time.Since(began) != c.after || (said.Len() > 0) != (n > 1) {
					t.Errorf("%v after %v and %d calls, said %q", err, time.Since(began), n, said.String())
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retried(ctx, &bytes.Buffer{}, func() error { return preparing }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
