package generic_test

import (
	"context"
	"errors"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// waiting is a listener that is told something, and takes it when it may.
type waiting struct {
	listener
	told, may chan struct{}
}

func (w *waiting) Stdout(p []byte) error {
	close(w.told)
	<-w.may
	return w.listener.Stdout(p)
}

// TestStarterLeaves: that whoever began a run leaves before it has started is no news to
// others, who learn how the run ended.
func TestStarterLeaves(t *testing.T) {
	broken := errors.New("the engine is gone")
	k := generic.NewKeeper(func(ctx context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
		err := live.Stdout([]byte("before it starts"))
		<-ctx.Done()
		return backend.RunResult{}, errors.Join(err, broken)
	})
	defer k.Close()
	spec := backend.DetachedStart{RunSpec: backend.RunSpec{Ref: backend.Ref{Config: "c", ID: "s"}, RunID: "r"}}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	started, attached := make(chan error, 1), make(chan error, 1)
	go func() { started <- k.StartRun(ctx, spec, &listener{}) }()
	w := &waiting{told: make(chan struct{}), may: make(chan struct{})}
	go func() {
		for {
			_, err := k.AttachRun(t.Context(), spec.Ref, spec.RunID, w)
			if !backend.IsNotFound(err) { // else it is not known yet
				attached <- err
				return
			}
		}
	}()
	<-w.told
	leave()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("StartRun = %v", err)
	}
	close(w.may)
	if err := <-attached; !errors.Is(err, broken) || errors.Is(err, context.Canceled) {
		t.Errorf("AttachRun = %v", err)
	}
}
