package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// binary is the verified program. It is executed by its descriptor where that
// is possible: what was verified is what runs.
type binary struct {
	file *os.File
	path string
	// script programs start with "#!": their interpreter opens them again.
	script bool
}

func openBinary(ctx context.Context, spec Spec) (_ *binary, err error) {
	f, err := os.Open(spec.Path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(info, spec.AllowWritable); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Path, err)
	}
	if spec.SHA256 != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, reader{ctx, f}); err != nil {
			return nil, fmt.Errorf("read %s: %w", spec.Path, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != spec.SHA256 {
			return nil, fmt.Errorf("%s: digest is %s, not the pinned %s: the file is damaged or was replaced; install it again or pin the new digest",
				spec.Path, got, spec.SHA256)
		}
	}
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", spec.Path, err)
	}
	return &binary{file: f, path: spec.Path, script: string(magic[:]) == "#!"}, nil
}

func (b *binary) close() { _ = b.file.Close() }

func checkMode(info fs.FileInfo, allowWritable bool) error {
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return errors.New("not a regular file")
	case mode.Perm()&0o111 == 0:
		return errors.New("not executable: set its mode with chmod +x")
	case mode.Perm()&0o022 != 0 && !allowWritable:
		return fmt.Errorf("mode %#o lets others write it: set its mode with chmod go-w", mode.Perm())
	}
	return checkOwner(info)
}

// reader ends with its context: a program may lie on a slow disk.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
