package envd

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
)

// TestTerminalWakesBothSides: whoever reads and whoever has to wait for room are woken,
// however they meet: neither takes the other's call.
func TestTerminalWakesBothSides(t *testing.T) {
	const chunks, size = 1_000, 16 << 10
	left := chunks
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &follower{
		c: &Client{opts: Options{Silence: time.Hour}}, ctx: ctx, cancel: cancel,
		silence: time.AfterFunc(time.Hour, func() {}), stop: func() error { return nil },
		receive: func() (*processpb.ProcessEvent, error) {
			if left--; left < 0 {
				return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_End{End: &processpb.ProcessEvent_EndEvent{Exited: true}}}, nil
			}
			return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Data{Data: &processpb.ProcessEvent_DataEvent{
				Output: &processpb.ProcessEvent_DataEvent_Pty{Pty: make([]byte, size)},
			}}}, nil
		},
	}
	term := newTerminal(f)
	over := time.AfterFunc(30*time.Second, func() { cancel(context.DeadlineExceeded) })
	defer over.Stop()
	n, err := io.Copy(io.Discard, term)
	if err != nil || n != chunks*size {
		t.Errorf("read %d bytes of %d, %v", n, chunks*size, err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}
