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
	"syscall"
)

// FileError says why a file may not be executed, or why what lies at a path may
// not be trusted.
type FileError struct {
	Path string
	// Reason is a phrase about Path.
	Reason string
	// Fix is a command or a sentence that mends it; empty when there is none.
	Fix string
}

func (e *FileError) Error() string {
	s := e.Path + ": " + e.Reason
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
}

// Check says why Start would not execute the file at path, without executing it:
// it has to be a regular file, executable, owned by root or by this user and
// writable by its owner only, and its content has to have the SHA-256 digest
// sum (lower-case hex; empty accepts any). It reads the whole file, until ctx
// ends. The error is a [*FileError] unless the file cannot be read.
func Check(ctx context.Context, path, sum string) error {
	b, err := openBinary(ctx, Spec{Path: path, SHA256: sum})
	if err != nil {
		return err
	}
	b.close()
	return nil
}

// CheckPlace says why others than root and this user may change the file or
// directory at path, as a [*FileError]. A link is followed.
func CheckPlace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkPlace(path, info)
}

func checkPlace(path string, info fs.FileInfo) error {
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return &FileError{path, fmt.Sprintf("mode %#o lets others write it", perm), "run chmod go-w " + path}
	}
	if reason := wrongOwner(info); reason != "" {
		return &FileError{path, reason, "install it again as root or as the user that runs this"}
	}
	return nil
}

// binary is the verified program. It is executed by its descriptor where that
// is possible: what was verified is what runs.
type binary struct {
	file *os.File
	path string
	// script programs start with "#!": their interpreter opens them again.
	script bool
}

func openBinary(ctx context.Context, spec Spec) (_ *binary, err error) {
	// Without O_NONBLOCK, opening a named pipe waits for a writer that may never
	// come.
	f, err := os.OpenFile(spec.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	if err := checkMode(spec.Path, info, spec.AllowWritable); err != nil {
		return nil, err
	}
	if spec.SHA256 != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, reader{ctx, f}); err != nil {
			return nil, fmt.Errorf("read %s: %w", spec.Path, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != spec.SHA256 {
			return nil, &FileError{
				Path:   spec.Path,
				Reason: fmt.Sprintf("digest is %s, not the pinned %s: the file is damaged or was replaced; install it again or pin the new digest", got, spec.SHA256),
			}
		}
	}
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", spec.Path, err)
	}
	return &binary{file: f, path: spec.Path, script: string(magic[:]) == "#!"}, nil
}

func (b *binary) close() { _ = b.file.Close() }

func checkMode(path string, info fs.FileInfo, allowWritable bool) error {
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return &FileError{Path: path, Reason: "not a regular file"}
	case mode.Perm()&0o111 == 0:
		return &FileError{path, "not executable", "run chmod +x " + path}
	case !allowWritable:
		return checkPlace(path, info)
	case wrongOwner(info) != "":
		return &FileError{Path: path, Reason: wrongOwner(info)}
	}
	return nil
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
