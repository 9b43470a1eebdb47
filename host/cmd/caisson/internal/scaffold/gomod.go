package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
	path "golang.org/x/mod/module"
)

// goVersion is the least that the SDK builds with.
const goVersion = "1.26.0"

// addGo adds what says where the SDK is.
func (p Project) addGo(all map[string][]byte) error {
	mod, version := &modfile.File{}, p.Version
	err := errors.Join(mod.AddModuleStmt("example.com/"+p.Name), mod.AddGoStmt(goVersion))
	switch {
	case p.SDK != "":
		sdk, err2 := sourcesOf(p.SDK)
		if err2 != nil {
			return err2
		}
		version = "v0.0.0"
		err = errors.Join(err, mod.AddReplace(module, "", sdk, ""))
	case path.CanonicalVersion(version) != version || path.Check(module, version) != nil:
		return errors.New("this build of caisson has no version that could be required: name a directory with its sources by --sdk")
	}
	if err = errors.Join(err, mod.AddRequire(module, version)); err != nil {
		return err
	}
	if all["go.mod"], err = mod.Format(); err != nil {
		return err
	}
	if p.Kind == "backend" {
		return p.addReference(all)
	}
	return nil
}

// sourcesOf returns the path of a directory that holds the module's sources.
func sourcesOf(dir string) (string, error) {
	sdk, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(sdk, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("the SDK: %w", err)
	}
	if modfile.ModulePath(text) != module {
		return "", fmt.Errorf("%s does not hold %s", sdk, module)
	}
	return sdk, nil
}
