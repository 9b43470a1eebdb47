package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/caisson-run/caisson/manifest"
)

// With keys, what is not signed by one of them is not used: neither at the start
// nor later, and no longer once it was changed.
func TestSignedPluginsOnly(t *testing.T) {
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.ParseKeys([]string{public.String()})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(dir string) {
		t.Helper()
		path := filepath.Join(dir, "plugin.yaml")
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "sha256") {
			var program []byte
			program, err = os.ReadFile(filepath.Join(dir, "fake"))
			sum := sha256.Sum256(program)
			text = append(text, "sha256: "+hex.EncodeToString(sum[:])+"\n"...)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, manifest.SignatureName), minisign.Sign(secret, text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}})
	o := f.options()
	o.Trust.SigningKeys = keys
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), manifest.SignatureName) {
		t.Fatalf("an unsigned plugin: %v", err)
	}
	sign(filepath.Join(f.plugins, "fake"))
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	expectServing(t, h, "1.2.3")

	next := f.version("1.3.0", nil)
	if r := swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapRefused); !strings.Contains(r.Reason, manifest.SignatureName) {
		t.Errorf("reason %q", r.Reason)
	}
	sign(next)
	program := filepath.Join(next, "fake")
	good, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, append(good, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapRefused); !strings.Contains(r.Reason, "digest") {
		t.Errorf("reason %q", r.Reason)
	}
	if err := os.WriteFile(program, good, 0o755); err != nil {
		t.Fatal(err)
	}
	swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapDone)
	expectServing(t, h, "1.3.0")
}
