package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// The examples of docs/clients.md do what it says.
func TestClientExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	t.Parallel()
	dir, err := filepath.Abs("../../../../docs/examples/clients")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)
	defer s.stop(t)
	for program, prepare := range map[string]func(*testing.T) string{
		"python3": func(*testing.T) string { return filepath.Join(dir, "client.py") },
		"node": func(t *testing.T) string {
			// What newer versions of node do by themselves: types are dropped.
			source, err := os.ReadFile(filepath.Join(dir, "client.ts"))
			if err != nil {
				t.Fatal(err)
			}
			out := api.Transform(string(source), api.TransformOptions{Loader: api.LoaderTS, Target: api.ES2022})
			if len(out.Errors)+len(out.Warnings) > 0 {
				t.Fatalf("%+v", out)
			}
			return write(t, "client.mjs", string(out.Code))
		},
	} {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil && os.Getenv("CAISSON_CI") != "" {
				t.Fatal(err)
			}
			if err != nil {
				t.Skip(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, path, prepare(t))
			cmd.Env = append([]string{"CAISSON_URL=" + s.url}, p.env...)
			out, err := cmd.CombinedOutput()
			if want := "sum 6\nsquares.txt 1 4 9\nsquares.txt\n"; err != nil || string(out) != want {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
