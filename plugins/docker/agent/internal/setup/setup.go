//go:build linux

// Package setup makes a container ready for an agent: the agent's own directories, the
// user id of the session, and a working directory that all programs share.
package setup

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Dirs are the agent's directories, beside its program.
type Dirs struct {
	// Private is user 0's alone: the socket, locks, and what outlives an agent.
	Private string
	// Programs is where each run makes a directory for its program.
	Programs string
}

// Socket is where the agent listens.
func (d Dirs) Socket() string { return filepath.Join(d.Private, "agent.sock") }

// Lock returns the path of a lock.
func (d Dirs) Lock(name string) string { return filepath.Join(d.Private, name+".lock") }

// OpenDirs makes the directories beside the program that runs.
func OpenDirs() (Dirs, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return Dirs{}, fmt.Errorf("find the agent's own program: %w", err)
	}
	base := filepath.Dir(exe)
	d := Dirs{Private: filepath.Join(base, "private"), Programs: filepath.Join(base, "run")}
	if err := os.Mkdir(d.Private, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return Dirs{}, err
	}
	for dir, most := range map[string]os.FileMode{base: 0o755, d.Private: 0o700} {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return Dirs{}, err
		}
		if st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o777&^uint32(most) != 0 {
			return Dirs{}, fmt.Errorf("%s is not a directory of user 0 with the mode %#o or less", dir, most)
		}
	}
	return d, nil
}

// Build is the hex SHA-256 of the program that runs.
func Build() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("read the agent's own program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read the agent's own program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// SessionUID is the user id of this container's foreground runs. It is chosen at random
// once: the kernel counts the processes of a user id in all containers of a machine
// together, so that two that share one could take each other's.
func SessionUID(d Dirs) (int, error) {
	path := filepath.Join(d.Private, "uid")
	b, err := os.ReadFile(path)
	if err == nil {
		if uid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && work.IsProgram(uid) {
			return uid, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	uid := work.FirstUID + int(binary.BigEndian.Uint32(random[:])%(work.LastUID-work.FirstUID+1))
	return uid, os.WriteFile(path, []byte(strconv.Itoa(uid)+"\n"), 0o600)
}

// Adopt makes a directory, which need not be there, one that all programs share, and
// returns their group. It acts as the directory's owner, whoever that is.
func Adopt(dir string) (gid int, err error) {
	var st unix.Stat_t
	err = unix.Lstat(dir, &st)
	if errors.Is(err, unix.ENOENT) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return 0, fmt.Errorf("make %s: %w", dir, err)
		}
		if err := os.Mkdir(dir, 0o775); err != nil {
			return 0, fmt.Errorf("make %s: %w", dir, err)
		}
		err = unix.Lstat(dir, &st)
	}
	switch {
	case err != nil:
		return 0, err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return 0, fmt.Errorf("%s is not a directory", dir)
	case work.IsProgram(int(st.Uid)):
		return 0, fmt.Errorf("%s belongs to a program", dir)
	}
	if gid = int(st.Gid); gid == 0 {
		gid = work.DefaultGID
	}
	err = kernel.As(int(st.Uid), gid, func() error {
		if int(st.Gid) != gid {
			if err := unix.Lchown(dir, -1, gid); err != nil {
				return err
			}
		}
		return unix.Chmod(dir, st.Mode&0o005|0o2770)
	})
	if err != nil {
		return 0, fmt.Errorf("share %s with all programs: %w", dir, err)
	}
	return gid, nil
}

// Data adopts the working directory.
func Data() (gid int, err error) { return Adopt(files.DataDir) }

// names are what the session's user is called: the first that the image does not use.
var names = []string{"caisson", "caisson-run", "caisson-session"}

// Introduce adds the session's user and group to /etc/passwd and /etc/group unless they
// are there, for programs that ask who they are, and returns the user's name. Where those
// files cannot be written programs that ask see numbers.
func Introduce(uid, gid int) string {
	introduce("/etc/group", gid, func(name string) string { return fmt.Sprintf("%s:x:%d:\n", name, gid) })
	return introduce("/etc/passwd", uid, func(name string) string {
		return fmt.Sprintf("%s:x:%d:%d::/tmp:/bin/sh\n", name, uid, gid)
	})
}

// introduce appends a line to a file of records whose third field is an id, unless the id
// is there, and returns its name.
func introduce(path string, id int, line func(name string) string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 1<<20 {
		return names[0]
	}
	taken := make(map[string]bool)
	for l := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(l), ":")
		if taken[f[0]] = true; len(f) > 2 && f[2] == strconv.Itoa(id) {
			return f[0]
		}
	}
	name := names[0]
	for _, n := range names {
		if name = n; !taken[n] {
			break
		}
	}
	text := line(name)
	if len(b) > 0 && b[len(b)-1] != '\n' {
		text = "\n" + text
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil || taken[name] {
		return names[0]
	}
	defer f.Close()
	_, _ = f.WriteString(text)
	return name
}
