package backendtest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) contextChecks() []check {
	return []check{
		{"canceled", k.contextCanceled},
		{"expired", k.contextExpired},
		{"exec", k.contextExec},
		{"write", k.contextWrite},
	}
}

// ended is for methods called with a context that has ended: they may still
// succeed when there is nothing to wait for, but fail with nothing else.
func (k *kit) ended(t *testing.T, ctx context.Context, want error) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "x")
	path := data("f")
	for name, call := range map[string]func() error{
		"Health":      func() error { _, err := k.b.Health(ctx); return err },
		"OpenConfig":  func() error { return k.b.OpenConfig(ctx, k.configID, k.config) },
		"CloseConfig": func() error { return k.b.CloseConfig(ctx, k.session()) },
		"Probe":       func() error { _, err := k.b.Probe(ctx, k.config); return err },
		"Create": func() error {
			sb, err := k.b.Create(ctx, k.createSpec())
			if err == nil {
				err = k.b.Delete(context.WithoutCancel(ctx), sb.Ref)
			}
			return err
		},
		"Connect":  func() error { _, err := k.b.Connect(ctx, ref); return err },
		"Get":      func() error { _, err := k.b.Get(ctx, ref); return err },
		"List":     func() error { _, err := k.b.List(ctx, backend.ListFilter{Config: k.configID}); return err },
		"Delete":   func() error { return k.b.Delete(ctx, k.ghost()) },
		"Walk":     func() error { _, err := k.b.Walk(ctx, backend.WalkRequest{Ref: ref, Digests: true}); return err },
		"Stat":     func() error { _, err := k.b.Stat(ctx, ref, path); return err },
		"ListDir":  func() error { _, err := k.b.ListDir(ctx, ref, backend.DataDir); return err },
		"MakeDir":  func() error { return k.b.MakeDir(ctx, ref, data("d")) },
		"Remove":   func() error { return k.b.Remove(ctx, ref, data("absent")) },
		"ReadFile": func() error { return k.readAll(ctx, ref, path) },
	} {
		var err error
		k.within(t, name, func() { err = call() })
		if err != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want success or %v", name, err, want)
		}
	}
}

func (k *kit) readAll(ctx context.Context, ref backend.Ref, path string) error {
	r, _, err := k.b.ReadFile(ctx, ref, path)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

func (k *kit) contextCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.ended(t, ctx, context.Canceled)
}

func (k *kit) contextExpired(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	k.ended(t, ctx, context.DeadlineExceeded)
}

// contextExec: a command ends with its caller.
func (k *kit) contextExec(t *testing.T) {
	if k.Probe.Exec == nil {
		t.Skip("the harness says nothing of command lines")
	}
	ref := k.sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		k.await(t, "file of the command", func() bool {
			_, err := k.b.Stat(context.WithoutCancel(ctx), ref, data("begun"))
			return err == nil
		})
	}()
	var res backend.ExecResult
	var err error
	k.within(t, "Exec", func() { res, err = k.b.Exec(ctx, k.execRequest(ref, "write", "begun", "x", "spin")) })
	if err == nil && res.Stop != backend.StopCanceled || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Exec = %+v, %v", res, err)
	}
}

// contextWrite: content that stops coming when the caller leaves is not stored.
func (k *kit) contextWrite(t *testing.T) {
	ref := k.sandbox(t)
	k.write(t, ref, data("f"), "kept")
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		<-asked
		cancel()
	}()
	var err error
	k.within(t, "WriteFile", func() {
		_, err = k.b.WriteFile(ctx, ref, data("f"), backend.WriteOptions{}, &stuck{asked: asked, end: ctx.Done()})
	})
	if err == nil {
		t.Error("a cancelled write succeeded")
	}
	if got := k.read(t, ref, data("f")); got != "kept" {
		t.Errorf("a cancelled write replaced the file by %s", show(got))
	}
}
