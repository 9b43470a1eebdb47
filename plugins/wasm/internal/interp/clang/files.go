package clang

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// maxSource bounds a source that is looked at before it is compiled.
const maxSource = 16 << 20

var (
	errAbsent   = errors.New("no such file")
	errReadOnly = errors.New("read-only file system")
)

// readFile reads a file of the run by its guest path.
func readFile(r *guest.Run, p string, limit int64) ([]byte, error) {
	fs, rel, ok := r.Lookup(p)
	if !ok {
		return nil, errAbsent
	}
	f, errno := fs.OpenFile(rel, esys.O_RDONLY, 0)
	if errno == esys.ENOENT || errno == esys.ENOTDIR {
		return nil, errAbsent
	}
	if errno != 0 {
		return nil, errors.New(errno.Error())
	}
	defer f.Close()
	st, errno := f.Stat()
	switch {
	case errno != 0:
		return nil, errors.New(errno.Error())
	case !st.Mode.IsRegular():
		return nil, errors.New("no plain file")
	case st.Size > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	b := make([]byte, 0, st.Size)
	for int64(len(b)) < st.Size {
		n, errno := f.Read(b[len(b):st.Size])
		if errno != 0 {
			return nil, errors.New(errno.Error())
		}
		if n == 0 {
			break
		}
		b = b[:len(b)+n]
	}
	return b, nil
}

// writeProgram writes the program to its guest path: below the directory of the
// source, which programs cannot change, or among the caller's files, where it counts
// like them.
func writeProgram(r *guest.Run, p string, program []byte) error {
	if rel, ok := strings.CutPrefix(p, guest.EntryDir+"/"); ok && r.Program.Entry != nil {
		if err := r.Program.Entry.WriteFile(rel, program, 0o644); err != nil {
			return errors.New("it cannot be written")
		}
		return nil
	}
	fs, rel, ok := r.Lookup(p)
	if !ok {
		return errReadOnly
	}
	f, errno := fs.OpenFile(rel, esys.O_WRONLY|esys.O_CREAT|esys.O_TRUNC, 0o644)
	if errno != 0 {
		return errors.New(errno.Error())
	}
	for len(program) > 0 {
		n, errno := f.Write(program)
		if errno != 0 {
			_ = f.Close()
			return errors.New(errno.Error())
		}
		program = program[n:]
	}
	if errno := f.Close(); errno != 0 {
		return errors.New(errno.Error())
	}
	return nil
}

// uvarint reads an unsigned LEB128 number; n is not positive when there is none.
func uvarint(b []byte) (v uint64, n int) { return binary.Uvarint(b) }
