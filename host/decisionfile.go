package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// decisionFile is where decisions are appended. Requests wait for a line to be written,
// so it is a regular file: a pipe would wait for its reader. A nil one takes nothing.
// Its owner serialises its use.
type decisionFile struct {
	path string
	log  hclog.Logger
	file *os.File
	// err is why nothing more is written; torn says that the last line may lack its end.
	err  error
	torn bool
}

// openDecisionFile makes the file, for this user only, unless it is there.
func openDecisionFile(path string, log hclog.Logger) (*decisionFile, error) {
	f := &decisionFile{path: path, log: log}
	file, err := f.open()
	if err != nil {
		return nil, err
	}
	f.file = file
	return f, nil
}

func (f *decisionFile) open() (*os.File, error) {
	// Without O_NONBLOCK, opening a named pipe waits for a reader.
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		f.log.Warn("others than its owner may open the decision log, which holds callers' code", "file", f.path, "mode", fmt.Sprintf("%#o", perm))
	}
	return file, nil
}

func (f *decisionFile) write(d *Decision) {
	if f == nil || f.err != nil {
		return
	}
	line, err := json.Marshal(d)
	if err == nil {
		if f.torn {
			line = append([]byte("\n"), line...)
		}
		_, err = f.file.Write(append(line, '\n'))
		f.torn = err != nil
	}
	if err != nil {
		f.err = err
		f.log.Error("the decision log is not written any more: mend it, then reload", "error", err)
	}
}

// failed is why nothing more is written.
func (f *decisionFile) failed() error {
	if f == nil {
		return nil
	}
	return f.err
}

// reopen goes on with what is at the path now. If that cannot be opened the file that
// was open is kept.
func (f *decisionFile) reopen() {
	if f == nil {
		return
	}
	file, err := f.open()
	if err != nil {
		f.log.Error("the decision log cannot be opened again, and the file that was open is kept", "error", err)
		return
	}
	before, _ := f.file.Stat()
	now, err := file.Stat()
	f.torn = f.torn && err == nil && os.SameFile(before, now) // another begins with a whole line
	if err := f.file.Close(); err != nil {
		f.log.Warn("the decision log that was open cannot be closed", "error", err)
	}
	f.file, f.err = file, nil
}

func (f *decisionFile) close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}
