// Command shared is a backend plugin for tests of replicas: its sandboxes are
// directories that the plugins of all replicas share.
package main

import (
	"context"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

func main() {
	backend.Serve(func(context.Context, hclog.Logger) (backend.Backend, error) {
		delay, err := time.ParseDuration(os.Getenv("SHARED_DELAY"))
		if err != nil {
			return nil, err
		}
		dir := os.Getenv("SHARED_DIR")
		return shared{hostbackend.NewShared(dir, hostbackend.Shared{Named: os.Getenv("SHARED_NAMED") == "1", Delay: delay})}, nil
	})
}

type shared struct{ *hostbackend.SharedBackend }

// Info says what the manifest beside this says.
func (s shared) Info(ctx context.Context) (backend.Info, error) {
	info, err := s.SharedBackend.Info(ctx)
	info.Name, info.Version = "shared", "0.1.0"
	info.StateSchema = []string{"1"}
	info.Languages = []backend.LanguageSupport{{ID: "bash", Toolchain: "bash"}}
	return info, err
}
