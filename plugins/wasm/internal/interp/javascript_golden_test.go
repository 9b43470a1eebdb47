package interp

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files with what the installed node prints")

// The golden files are what node 20 prints: programs cannot tell the two apart
// by these.
func TestJavaScriptPrintsWhatNodePrints(t *testing.T) {
	files, err := filepath.Glob("testdata/javascript/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		golden := strings.TrimSuffix(file, ".js") + ".out"
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				rewriteGolden(t, file, golden)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			need(t, "node")
			s := newSandbox(t)
			o := s.run(context.Background(), s.program("node", "main.js", string(source)))
			if o.Code != 0 || o.Reason != ReasonExit {
				t.Fatalf("code %d, %s, %v, stderr:\n%s", o.Code, o.Reason, o.Err, o.stderr)
			}
			compareLines(t, o.stdout, string(want))
		})
	}
}

func rewriteGolden(t *testing.T, file, golden string) {
	t.Helper()
	abs, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "--no-warnings", abs)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=en_US.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// compareLines reports the first lines that differ.
func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Fatalf("line %d:\n%s\nwant:\n%s", i+1, a, b)
		}
	}
}
