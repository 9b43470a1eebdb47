package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/caisson-run/caisson/manifest"
	"github.com/urfave/cli/v3"
)

// maxName is the most that a file system takes for one name, in bytes.
const maxName = 255

// pluginArg is the argument at i, the name of a plugin that runs.
func pluginArg(cmd *cli.Command, i int) (string, error) {
	name := cmd.Args().Get(i)
	if err := manifest.CheckName(name); err != nil {
		return "", usagef(cmd, "NAME %s: %w", brief(name), err)
	}
	return name, nil
}

// foundArg is the argument at i, the name of a plugin that was found. One with no
// readable manifest has that of its directory.
func foundArg(cmd *cli.Command, i int) (string, error) {
	name := cmd.Args().Get(i)
	if name == "." || name == ".." || len(name) > maxName || strings.Contains(name, "/") || checkPath(name) != nil {
		return "", usagef(cmd, "NAME %s: must be the name of a plugin, or of its directory alone", brief(name))
	}
	return name, nil
}

// dirArg is the argument at i, an existing directory, as an absolute path.
func dirArg(cmd *cli.Command, i int) (string, error) {
	dir := cmd.Args().Get(i)
	if err := checkPath(dir); err != nil {
		return "", usagef(cmd, "DIR %s: %w", brief(dir), err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &kindError{failedNotFound, errors.New("DIR " + brief(abs) + ": there is no such directory")}
	case err != nil:
		// The path is said already, and may be long.
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", usagef(cmd, "DIR %s: %w", brief(dir), err)
	case !st.IsDir():
		return "", usagef(cmd, "DIR %s: must be the plugin's directory, not a file", brief(abs))
	}
	return abs, nil
}

// checkPath refuses what is no path of a plugin's directory.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("must not be empty")
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unprintable):
		return errors.New("must be printable text")
	}
	return nil
}

// brief is an argument as errors show it.
func brief(arg string) string {
	const most = 80
	if r := []rune(arg); len(r) > most {
		return printable(string(r[:most])) + "…"
	}
	if arg == "" {
		return `""`
	}
	return printable(arg)
}
