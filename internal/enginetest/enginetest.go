// Package enginetest finds and removes the containers that a test's plugins left on a
// Docker engine, which tests of several packages share.
package enginetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Containers are the names of those that Docker plugins made whose data are below dir. It
// needs the docker command.
func Containers(host, dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "installation" {
			return err
		}
		owner, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list, err := docker(host, "ps", "--all", "--format", "{{.Names}}", "--filter", "label=caisson.owner="+string(owner))
		names = append(names, strings.Fields(list)...)
		return err
	})
	return names, err
}

// Remove removes them and returns which there were.
func Remove(host, dir string) ([]string, error) {
	names, err := Containers(host, dir)
	if err == nil && len(names) > 0 {
		_, err = docker(host, append([]string{"rm", "--force", "--volumes"}, names...)...)
	}
	return names, err
}

func docker(host string, args ...string) (string, error) {
	out, err := exec.Command("docker", append([]string{"--host", host}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker %q: %w: %s", args, err, out)
	}
	return string(out), err
}
