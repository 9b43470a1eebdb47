package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/caisson-run/caisson/host/config"
	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"
)

// defaultData is where data is kept when nothing says otherwise.
const defaultData = "data"

// settings are what the flags and the configuration file come to.
type settings struct {
	config.File
	// path of the file; empty without one. blank says that it is one that says nothing.
	path  string
	blank bool
	// dataFlag says that --data names the data directory.
	dataFlag bool
	// pluginDirs are absolute.
	pluginDirs []string
}

// commonFlags are understood by every command that needs to know the deployment.
func commonFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "config", Usage: "read the configuration from `FILE`; flags win over it"},
		&cli.StringFlag{Name: "data", Usage: "keep data in `DIR` (default: data)"},
		&cli.StringSliceFlag{Name: "plugins", Usage: "search `DIR` for plugins, may be repeated (default: plugins beside the program)"},
	)
}

// settings reads the configuration and applies the common flags.
func (a *app) settings(cmd *cli.Command) (settings, error) {
	// What is empty because a variable was would be the working directory, or the default.
	for _, flag := range []string{"config", "data"} {
		if err := checkPath(cmd.String(flag)); cmd.IsSet(flag) && err != nil {
			return settings{}, usagef(cmd, "--%s %s: %w", flag, brief(cmd.String(flag)), err)
		}
	}
	for _, dir := range cmd.StringSlice("plugins") {
		if err := checkPath(dir); err != nil {
			return settings{}, usagef(cmd, "--plugins %s: %w", brief(dir), err)
		}
	}
	s := settings{File: config.Default(), path: cmd.String("config")}
	if s.path != "" {
		var err error
		if s.File, s.blank, err = config.Read(s.path); err != nil {
			return settings{}, err
		}
	}
	if dir := cmd.String("data"); dir != "" {
		s.Data, s.dataFlag = dir, true
	}
	if s.Data == "" {
		s.Data = defaultData
	}
	var err error
	if s.Data, err = filepath.Abs(s.Data); err != nil {
		return settings{}, fmt.Errorf("data directory: %w", err)
	}
	s.pluginDirs = s.Plugins.Dirs
	if dirs := cmd.StringSlice("plugins"); len(dirs) > 0 {
		s.pluginDirs = dirs
	}
	if len(s.pluginDirs) == 0 {
		dir, err := a.besideProgram("plugins")
		if err != nil {
			return settings{}, fmt.Errorf("find the program's directory: %w; name plugins with --plugins", err)
		}
		s.pluginDirs = []string{dir}
	}
	for i, dir := range s.pluginDirs {
		if s.pluginDirs[i], err = filepath.Abs(dir); err != nil {
			return settings{}, fmt.Errorf("plugin directory: %w", err)
		}
	}
	return s, nil
}

// besideProgram is a path in the directory of the program itself, links to it
// followed.
func (a *app) besideProgram(name string) (string, error) {
	exe, err := a.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(exe), name), nil
}

// cacheDir is where a process keeps what can be made again when it does not hold
// the data directory: with the data of a deployment that exists, else with the
// caches of the user or the machine, whichever belongs to this user: what is kept
// there is executed. Empty means that there is no such place. Where make is set, a
// directory that --data names is used whether it exists or not.
func (s settings) cacheDir(make bool) string {
	dir := filepath.Join(s.Data, "cache")
	if make && s.dataFlag {
		return dir
	}
	if st, err := os.Stat(s.Data); err == nil && st.IsDir() && ownDir(dir) {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil && ownDir(filepath.Join(dir, "caisson")) {
		return filepath.Join(dir, "caisson")
	}
	if dir := filepath.Join(os.TempDir(), machineCache()); ownDir(dir) {
		return dir
	}
	return ""
}

func machineCache() string { return fmt.Sprintf("caisson-cache-%d", os.Geteuid()) }

// ownDir makes path when it does not exist, and reports whether it is a directory
// that this user may write and nobody else.
func ownDir(path string) bool {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return false
	}
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 &&
		unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// ledgerPath is where the SQLite ledger is.
func (s settings) ledgerPath() string {
	if s.Billing.Path != "" {
		return s.Billing.Path
	}
	return filepath.Join(s.Data, "ledger.db")
}

func logFlags(level string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-level", Usage: "log what is at least `LEVEL`: trace, debug, info, warn, error or off", Value: level},
		&cli.BoolFlag{Name: "log-json", Usage: "log one JSON object a line"},
	}
}

// logger writes to stderr what the flags ask for.
func (a *app) logger(cmd *cli.Command) (hclog.Logger, error) {
	level := hclog.LevelFromString(cmd.String("log-level"))
	if level == hclog.NoLevel {
		return nil, usagef(cmd, "--log-level %q is no level", cmd.String("log-level"))
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: "caisson", Level: level, Output: a.Stderr, JSONFormat: cmd.Bool("log-json"),
	}), nil
}
