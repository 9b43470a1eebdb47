package manifest_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// Whatever is done to a signature, it says the same of the same bytes or is refused.
// Only the first comment is nobody's word.
func TestTamperedSignatures(t *testing.T) {
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.ParseKeys([]string{public.String()})
	if err != nil {
		t.Fatal(err)
	}
	text := backend + "sha256: " + strings.Repeat("a", 64) + "\n"
	good := minisign.SignWithComments(secret, []byte(text), "timestamp:1 file:plugin.yaml", "by us")
	var want minisign.Signature
	if err := want.UnmarshalText(good); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, manifest.FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	accepted := func(signature []byte) bool {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, manifest.SignatureName), signature, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := manifest.LoadSigned(dir, keys)
		return err == nil
	}
	means := func(signature []byte) bool {
		var s minisign.Signature
		return s.UnmarshalText(signature) == nil && s.Equal(want)
	}
	if !accepted(good) {
		t.Fatal("the signature as it was made is refused")
	}
	n := 0
	check := func(what string, at int, signature []byte) {
		if accepted(signature) {
			if n++; !means(signature) {
				t.Errorf("%s at %d is accepted: %q", what, at, signature)
			}
		}
	}
	for i := range good {
		check("cut", i, good[:i])
		for _, b := range []byte{0, '\n', '\r', ' ', 'A', '=', good[i] ^ 1, good[i] ^ 0x80} {
			if b != good[i] {
				changed := bytes.Clone(good)
				changed[i] = b
				check("a change", i, changed)
			}
			check("an insertion", i, slices.Insert(bytes.Clone(good), i, b))
		}
		check("a deletion", i, slices.Delete(bytes.Clone(good), i, i+1))
	}
	t.Logf("%d variations of spelling are accepted", n)

	// A wrong key's id on our key, and ours on a wrong key.
	otherPublic, other, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	renamed := want
	renamed.KeyID = otherPublic.ID()
	foreign := minisign.Signature{}
	if err := foreign.UnmarshalText(minisign.Sign(other, []byte(text))); err != nil {
		t.Fatal(err)
	}
	foreign.KeyID = public.ID()
	mixed := want // our comment's signature under theirs of the text
	mixed.Signature = foreign.Signature
	legacy := want
	legacy.Algorithm = minisign.HashEdDSA
	comment := want
	comment.TrustedComment = "timestamp:2 file:plugin.yaml"
	for name, bad := range map[string]string{
		"another key's id": renamed.String(), "our id on another key": foreign.String(), "two keys' parts": mixed.String(),
		"another algorithm": legacy.String(), "another trusted comment": comment.String(),
		"garbage behind it": string(good) + "garbage", "a second signature behind it": string(good) + string(good),
		"a comment with a line in it": lines[0] + lines[1] + "trusted comment: x\n" + lines[2] + lines[3],
		"a line before it":            "\n" + string(good), "without its first comment": strings.Join(lines[1:], ""),
		"lines in another order": lines[2] + lines[3] + lines[0] + lines[1],
	} {
		if accepted([]byte(bad)) {
			t.Errorf("%s: accepted", name)
		}
	}
	// Nor is one taken that lies outside, where others may change it.
	outside := filepath.Join(t.TempDir(), "signature")
	if err := errors.Join(os.WriteFile(outside, good, 0o600), os.Remove(filepath.Join(dir, manifest.SignatureName)), os.Symlink(outside, filepath.Join(dir, manifest.SignatureName))); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.LoadSigned(dir, keys); err == nil {
		t.Error("a signature outside of the directory was followed")
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
