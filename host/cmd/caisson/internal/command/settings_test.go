package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/host/config"
)

// A cache is nowhere that others may write: what is in it is executed.
func TestCacheDir(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flag     bool // --data names the directory
		data     os.FileMode
		home     os.FileMode // of the user's caches; 0 is a file in their place
		tmp      os.FileMode // of what is in the machine's place already; 0 is nothing
		run, doc string
	}{
		{name: "a deployment", data: 0o700, home: 0o700, run: "data/cache", doc: "data/cache"},
		{name: "a named deployment", flag: true, data: 0o700, home: 0o700, run: "data/cache", doc: "data/cache"},
		{name: "a named one that does not exist", flag: true, home: 0o700, run: "data/cache", doc: "home/caisson"},
		{name: "no deployment", home: 0o700, run: "home/caisson", doc: "home/caisson"},
		{name: "no home", run: "tmp", doc: "tmp"},
		{name: "others write the machine's", tmp: 0o777, run: "", doc: ""},
		{name: "others write the deployment's", data: 0o777, home: 0o700, run: "home/caisson", doc: "home/caisson"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			home, tmp := filepath.Join(root, "home"), filepath.Join(root, "tmp")
			t.Setenv("XDG_CACHE_HOME", home)
			t.Setenv("TMPDIR", tmp)
			mkdir := func(path string, mode os.FileMode) {
				t.Helper()
				if err := os.MkdirAll(path, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			mkdir(tmp, 0o700)
			if tt.home != 0 {
				mkdir(home, tt.home)
			} else if err := os.WriteFile(home, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := settings{File: config.File{Data: filepath.Join(root, "data")}, dataFlag: tt.flag}
			if tt.data != 0 {
				mkdir(filepath.Join(s.Data, "cache"), tt.data)
			}
			machine := filepath.Join(tmp, machineCache())
			if tt.tmp != 0 {
				mkdir(machine, tt.tmp)
			}
			want := func(name string) string {
				switch name {
				case "":
					return ""
				case "tmp":
					return machine
				}
				return filepath.Join(root, filepath.FromSlash(name))
			}
			if got := s.cacheDir(true); got != want(tt.run) {
				t.Errorf("run keeps its cache in %q, want %q", got, want(tt.run))
			}
			if got := s.cacheDir(false); got != want(tt.doc) {
				t.Errorf("doctor keeps its cache in %q, want %q", got, want(tt.doc))
			}
		})
	}
}
