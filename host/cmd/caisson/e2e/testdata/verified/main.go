// Command verified is a backend plugin for tests of caisson plugin verify. A file
// called "wrong" beside it makes it break one promise, one called "full" has it make no
// sandbox.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

func main() {
	backend.Serve(func(context.Context, hclog.Logger) (backend.Backend, error) {
		b := verified{SharedBackend: hostbackend.NewShared(os.Getenv(backend.EnvData), hostbackend.Shared{Named: true})}
		for name, is := range map[string]*bool{"wrong": &b.wrong, "full": &b.full} {
			_, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), name))
			*is = err == nil
		}
		return b, nil
	})
}

type verified struct {
	*hostbackend.SharedBackend
	wrong, full bool
}

// Create makes none when it is full.
func (v verified) Create(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
	if v.full {
		return backend.Sandbox{}, backend.Errorf(backend.KindCapacity, "Create", "there is no room")
	}
	return v.SharedBackend.Create(ctx, s)
}

// Info says what the manifest beside this says.
func (v verified) Info(ctx context.Context) (backend.Info, error) {
	info, err := v.SharedBackend.Info(ctx)
	info.Name, info.Version = "verified", "0.1.0"
	info.Languages = []backend.LanguageSupport{{ID: "bash", Toolchain: "bash"}}
	return info, err
}

// List shows everybody's sandboxes when it is wrong.
func (v verified) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	if v.wrong {
		f.Tenant, f.Session = "", ""
	}
	return v.SharedBackend.List(ctx, f)
}
