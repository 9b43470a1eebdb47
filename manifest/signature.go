package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"aead.dev/minisign"
)

// SignatureName is the file beside a manifest that holds its minisign signature, as
// minisign -Sm plugin.yaml writes it.
const SignatureName = FileName + ".minisig"

// maxSignature bounds a signature file, in bytes: two lines of base64, two of
// comments.
const maxSignature = 4 << 10

// Keys are the minisign public keys that an operator trusts. The zero value trusts
// nobody. They are immutable.
type Keys struct{ keys []minisign.PublicKey }

// ParseKeys reads public keys as minisign prints them: a line of base64, with or
// without the comment line of a key file before it.
func ParseKeys(texts []string) (Keys, error) {
	var k Keys
	for i, text := range texts {
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return Keys{}, fmt.Errorf("keys[%d]: not a minisign public key: %w", i, err)
		}
		k.keys = append(k.keys, key)
	}
	return k, nil
}

// Empty says whether there is no key.
func (k Keys) Empty() bool { return len(k.keys) == 0 }

// SignatureError says why a manifest is not trusted.
type SignatureError struct {
	Path string
	// Reason is a phrase about Path.
	Reason string
}

func (e *SignatureError) Error() string { return e.Path + ": " + e.Reason }

// LoadSigned is Load for a manifest that one of the keys must have signed. What was
// signed is what is parsed, and it must pin its artifact: a signature of a manifest
// without a digest would say nothing about the code.
func LoadSigned(dir string, keys Keys, opts ...Option) (*Manifest, error) {
	data, err := read(dir, FileName, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	at := filepath.Join(dir, SignatureName)
	signature, err := read(dir, SignatureName, maxSignature)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &SignatureError{at, "is missing, and this host takes signed plugins only: sign the manifest with minisign -Sm " + FileName}
	case err != nil:
		return nil, fmt.Errorf("read signature: %w", err)
	case len(signature) > maxSignature:
		return nil, &SignatureError{at, "is too long to be a signature"}
	case !slices.ContainsFunc(keys.keys, func(k minisign.PublicKey) bool { return minisign.Verify(k, data, signature) }):
		return nil, &SignatureError{at, "none of the trusted keys made this signature of " + FileName + " as it is"}
	}
	return Parse(filepath.Join(dir, FileName), data, append(opts, RequireDigest)...)
}

// read reads a file below dir, up to one byte more than most.
func read(dir, name string, most int64) ([]byte, error) {
	f, err := openIn(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
