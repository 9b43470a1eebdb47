package envd_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// slowReader waits before every Read.
type slowReader struct {
	r    io.Reader
	wait time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.r.Read(p[:min(len(p), 1<<10)])
}

// TestSlowCallers: a daemon is silent while somebody waits for it, not while it waits for
// who takes or gives.
func TestSlowCallers(t *testing.T) {
	const silence, pause = time.Second, 3 * time.Second
	begin := func(t *testing.T) (*stand, backend.Ref) {
		t.Parallel()
		s := newStand(t, options{
			machine: envdfake.Options{KeepAlive: 100 * time.Millisecond},
			change:  func(o *envd.Options) { o.Silence = silence },
		})
		return s, s.sandbox()
	}
	t.Run("output", func(t *testing.T) {
		s, ref := begin(t)
		l := new(listener)
		l.onStdout = func(all string) {
			if all == "1\n" {
				time.Sleep(pause)
			}
		}
		got, err := s.Run(t.Context(), shellRun(ref, "echo 1; sleep 0.2; echo 2"), l)
		if err != nil || got.Stop != backend.StopExit || got.ExitCode != 0 || l.stdout.String() != "1\n2\n" {
			t.Errorf("%+v, %v, %q", got, err, l.stdout.String())
		}
	})
	t.Run("content", func(t *testing.T) {
		s, ref := begin(t)
		content := strings.Repeat("x", 1500)
		info, err := s.WriteFile(t.Context(), ref, data+"/f", backend.WriteOptions{}, &slowReader{strings.NewReader(content), pause})
		if err != nil || info.Size != int64(len(content)) {
			t.Fatalf("%+v, %v", info, err)
		}
		r, _, err := s.ReadFile(t.Context(), ref, data+"/f")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(&slowReader{r, pause}); err != nil || string(got) != content {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
	t.Run("changes", func(t *testing.T) {
		s, ref := begin(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		enough := errors.New("enough")
		done := make(chan error, 1)
		go func() {
			n := 0
			done <- s.Watch(ctx, ref, data, false, func(backend.WatchEvent) error {
				if n++; n == 1 {
					time.Sleep(pause)
					return nil
				}
				return enough
			})
		}()
		for i := 0; ; i++ {
			s.exec(backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{"echo x > f" + strings.Repeat("x", i)}})
			select {
			case err := <-done:
				if !errors.Is(err, enough) {
					t.Error(err)
				}
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}
