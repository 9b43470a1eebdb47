package clienttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRefusedUploads has the host application's client send uploads that are refused
// before they are read: it reads why, every time, while it still writes.
func TestRefusedUploads(t *testing.T) {
	config := filepath.Join(t.TempDir(), "caisson.yaml")
	if err := os.WriteFile(config, []byte("rates: {service_keys: {uploads: {requests: 1, per: 1h, burst: 30}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDriver(t, startServer(t, "--config", config))
	const times = 6
	for _, c := range []struct {
		path, key string
		mib       int
		want      string
	}{
		{"/upload", d.key, 151, "413 too_large"},
		{"/upload", "wrong", 60, "401 unauthorized"},
		{"/nothing", "wrong", 60, "404 not_found"},
		{"/upload/batch", d.key, 20, "429 rate_limited later"}, // the bucket is empty by then
	} {
		for _, known := range []bool{true, false} {
			for _, redirects := range []int{0, 5} { // the second goes through another library
				if c.want[:3] == "429" && known && redirects == 0 {
					d.drained(t)
				}
				var all []string
				what := fmt.Sprintf("%s of %d MiB, length known %v, redirects %d", c.path, c.mib, known, redirects)
				if err := d.call(t, "refused", map[string]any{
					"path": c.path, "key": c.key, "mib": c.mib, "times": times, "known": known, "redirects": redirects,
				}, &all); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, got := range all {
					if got != c.want {
						t.Errorf("%s: %q, want %q each time", what, all, c.want)
						break
					}
				}
			}
		}
	}
}

// drained uses up what the key may upload.
func (d *driver) drained(t *testing.T) {
	t.Helper()
	var all []string
	if err := d.call(t, "refused", map[string]any{"path": "/upload", "mib": 0, "times": 30}, &all); err != nil {
		t.Fatal(err)
	}
}
