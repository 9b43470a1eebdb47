package command

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/artifacts"
)

// saver saves files that programs made.
type saver struct {
	*app
	out string
	// chosen says that the user named out: whatever the program made may go there.
	chosen bool
	force  bool
}

// save copies files to s.out and names them on stderr. One that cannot be saved does
// not keep the others from it.
func (s saver) save(names []string, open func(name string) (io.ReadCloser, error)) error {
	if len(names) == 0 {
		return nil
	}
	dir, err := artifacts.Open(s.out)
	if err != nil {
		return fmt.Errorf("save files: %w", err)
	}
	defer dir.Close()
	dir.Force = s.force
	var errs []error
	for _, name := range names {
		saved, err := s.one(dir, name, open)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not saved: %w", printable(name), err))
			continue
		}
		fmt.Fprintf(s.Stderr, "saved %s\n", printable(saved))
	}
	return errors.Join(errs...)
}

func (s saver) one(dir *artifacts.Dir, name string, open func(string) (io.ReadCloser, error)) (string, error) {
	if !s.chosen && hidden(name) {
		// Tools act on such files in a working directory: .git, .envrc.
		return "", errors.New("it is hidden; name a directory for such files with --out")
	}
	content, err := open(name)
	if err != nil {
		return "", err
	}
	defer content.Close()
	saved, err := dir.Save(name, content)
	if errors.Is(err, artifacts.ErrExists) {
		return "", fmt.Errorf("it %w; use --force or another --out", err)
	}
	return saved, err
}

// lost says that limits kept files from being saved.
func lost(failed, attempted int) error {
	return fmt.Errorf("%d of %d changed files are too many or too large to save", failed, attempted)
}

// exitOf is the exit code that a program's end stands for.
func exitOf(status *string, code *int) error {
	switch {
	case status != nil && *status == "TO":
		return exitCode(exitTimeout)
	case code == nil:
		return exitCode(exitKilled)
	case *code != 0:
		return exitCode(*code)
	default:
		return nil
	}
}

// hidden reports whether a component of name begins with a dot.
func hidden(name string) bool { return strings.Contains("/"+name, "/.") }

// printable keeps a name that a program chose from steering the terminal.
func printable(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
