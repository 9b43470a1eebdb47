package manifest_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/caisson-run/caisson/manifest"
)

func TestLoadSigned(t *testing.T) {
	ours, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	theirs, other, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := backend + "sha256: " + strings.Repeat("a", 64) + "\n"
	keys, err := manifest.ParseKeys([]string{theirs.String(), ours.String()})
	if err != nil || keys.Empty() {
		t.Fatal(err)
	}
	only, err := manifest.ParseKeys([]string{"untrusted comment: minisign public key\n" + ours.String() + "\n"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text      string
		signature []byte
		keys      manifest.Keys
		want      string // empty: trusted
	}{
		"ours":              {text, minisign.Sign(secret, []byte(text)), keys, ""},
		"theirs":            {text, minisign.Sign(other, []byte(text)), keys, ""},
		"not theirs":        {text, minisign.Sign(other, []byte(text)), only, "none of the trusted keys"},
		"of another text":   {text, minisign.Sign(secret, []byte(text+" ")), keys, "none of the trusted keys"},
		"none":              {text, nil, keys, "is missing"},
		"empty":             {text, []byte{}, keys, "none of the trusted keys"},
		"garbage":           {text, []byte("untrusted comment: x\nRWQ=\ntrusted comment: y\n==\n"), keys, "none of the trusted keys"},
		"endless":           {text, []byte(strings.Repeat("x", 1<<20)), keys, "too long"},
		"no key":            {text, minisign.Sign(secret, []byte(text)), manifest.Keys{}, "none of the trusted keys"},
		"no digest":         {backend, minisign.Sign(secret, []byte(backend)), keys, "sha256"},
		"of a bad manifest": {"schema: 9\n", minisign.Sign(secret, []byte("schema: 9\n")), keys, "schema"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, manifest.FileName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.signature != nil {
				if err := os.WriteFile(filepath.Join(dir, manifest.SignatureName), c.signature, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := manifest.LoadSigned(dir, c.keys)
			switch {
			case c.want == "" && (err != nil || m.SHA256 == ""):
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("err = %v, want it to say %q", err, c.want)
			}
			var se *manifest.SignatureError
			if strings.Contains(c.want, "none") && !errors.As(err, &se) {
				t.Errorf("%T", err)
			}
		})
	}
	for _, bad := range []string{"", "RWQ", ours.String() + "x", secretText(t, secret)} {
		if _, err := manifest.ParseKeys([]string{bad}); err == nil || !strings.Contains(err.Error(), "keys[0]") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func secretText(t *testing.T, k minisign.PrivateKey) string {
	t.Helper()
	b, err := k.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
