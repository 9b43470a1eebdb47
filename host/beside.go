package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/manifest"
)

// maxBeside is how many files beside a plugin are named, maxLooked how many are looked
// at.
const (
	maxBeside = 20
	maxLooked = 10_000
)

var errEnough = errors.New("enough")

// beside says what is odd about the files in a plugin's directory: those that the
// manifest does not mention, and those that it does and are not there. A directory of
// which it mentions nothing is one line.
func (f found) beside() []string {
	root, err := os.OpenRoot(f.status.Dir)
	if err != nil {
		return []string{err.Error()}
	}
	defer root.Close()
	own := []string{manifest.FileName, manifest.SignatureName, f.m.Path}
	var out []string
	for _, name := range f.m.Files {
		if _, err := root.Lstat(name); err != nil {
			out = append(out, fmt.Sprintf("%s is among the files of the manifest, and is not there", name))
		}
		own = append(own, name)
	}
	var odd []string
	looked := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if looked++; looked > maxLooked || len(odd) > maxBeside {
			return errEnough
		}
		switch {
		case err != nil:
			return err
		case name == ".", e.IsDir() && slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"/") }):
			return nil // the way to something of the plugin
		case slices.Contains(own, name):
		case e.IsDir():
			odd = append(odd, name+"/")
		default:
			odd = append(odd, name)
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		out = append(out, err.Error())
	}
	for _, name := range odd[:min(len(odd), maxBeside)] {
		out = append(out, fmt.Sprintf("%s is not mentioned in the manifest: list it under files, or remove it", name))
	}
	if errors.Is(err, errEnough) {
		out = append(out, "and more")
	}
	return out
}
